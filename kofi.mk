# SPDX-License-Identifier: GPL-2.0
#
# What a module needs that uses kOFI; its Kbuild includes this file, from where kOFI is installed or
# from a checkout in which it was built: both look alike.

kofi-home := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))

# In C, <rdma/fabric.h> and its neighbours.
subdir-ccflags-y += -I$(kofi-home)/include
# In Rust, the crate `kofi`.
subdir-rustflags-y += -L $(kofi-home)/rust --extern kofi
# What kofi.ko exports, and in which version: modpost looks here.
KBUILD_EXTRA_SYMBOLS += $(kofi-home)/Module.symvers
