# SPDX-License-Identifier: GPL-2.0
#
# `make` builds the modules for the running kernel or for KDIR. The targets for tests use test kernels, which the lab
# builds. Kbuild has the rules of the modules.

KDIR ?= /lib/modules/$(shell uname -r)/build
LAB := python3 tools/testing/lab.py

ifeq ($(shell command -v python3),)
$(error python3 is not installed, which all targets need: apt-get install python3)
endif

.PHONY: modules modules_install clean install uninstall intree intree-undo
.PHONY: setup kernels demo nvme test soak next bench shell docs timings distclean help

# All variables of the command line are passed on, as some are for the kernel's make.
modules modules_install clean:
	@$(LAB) modules $(KDIR) $@ $(MAKEOVERRIDES)

install uninstall:
	@$(LAB) $@ $(KDIR) $(MAKEOVERRIDES)

intree intree-undo:
	$(if $(KERNEL),,$(error KERNEL is not set: make $@ KERNEL=<kernel source tree>))
	@$(LAB) intree $(KERNEL) $(if $(filter %-undo,$@),--undo)

setup kernels demo next:
	@$(LAB) $@

nvme:
	@$(LAB) soak nvme.rxe --lane plain

test soak:
	@$(LAB) $@ $(if $(T),'$(T)') $(addprefix --lane ,$(LANE)) $(if $(CHANGED),--changed)

bench:
	@$(LAB) bench $(LANE)

shell:
	@$(LAB) shell $(LANE)

docs timings:
	@$(LAB) $@

distclean:
	@$(LAB) clean

help:
	@echo 'make                  build the modules for the running kernel, or for KDIR=<build folder>'
	@echo 'make modules_install  install all modules for that kernel; make clean removes the build'
	@echo 'make install          install kofi.ko, the build files of consumers and the client: PREFIX=, DESTDIR=,'
	@echo '                      CLIENT=n without the client; make uninstall removes them'
	@echo 'make intree           place kOFI in the source tree KERNEL=<tree>; make intree-undo removes it'
	@echo ''
	@echo 'make demo             exchange messages between kernel modules, in a virtual machine'
	@echo 'make nvme             use a disk of the kernel target through the NVMe host of samples/nvme'
	@echo 'make test             run the tests; T=<part of a name> selects tests, LANE=uml|smp|plain,'
	@echo '                      KERNEL=7.2|7.3 the series of Linux, here and below'
	@echo 'make test CHANGED=1   run the tests that the changes since the last commit affect; in a clean tree,'
	@echo '                      those that the last commit affects'
	@echo 'make timings          print the longest scenarios and KUnit cases of past runs'
	@echo 'make next             test the newest series of Linux in Debian if it is newer than all known ones'
	@echo 'make soak             run the long tests; T= as above, LANE= as for shell'
	@echo 'make bench            compare kOFI with raw verbs; LANE=native|plain|traced'
	@echo 'make shell            start a guest with both soft RDMA devices; LANE=plain|uml|smp|proof|native'
	@echo 'make docs             build the documentation as HTML and as manual pages'
	@echo ''
	@echo 'make setup, kernels   install packages, build the test kernels'
	@echo 'make distclean        remove the test kernels, builds and logs from the cache'
