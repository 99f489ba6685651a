# SPDX-License-Identifier: GPL-2.0
#
# Build rules of consumers. The Kbuild of a consumer includes this file, from an installation or from a built
# checkout, which have the same layout.

kofi-home := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))

# The headers of the C API, such as <rdma/fabric.h>
subdir-ccflags-y += -I$(kofi-home)/include
# The crate `kofi` for Rust
subdir-rustflags-y += -L $(kofi-home)/rust --extern kofi
# The exported symbols of kofi.ko and their versions, for modpost
KBUILD_EXTRA_SYMBOLS += $(kofi-home)/Module.symvers
