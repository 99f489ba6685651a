# SPDX-License-Identifier: GPL-2.0
#
# `make` builds the modules for a kernel of yours; everything else works on test kernels that the
# lab builds for itself. The modules' own rules are in Kbuild.

KDIR ?= /lib/modules/$(shell uname -r)/build
LAB := python3 tools/testing/lab.py

ifeq ($(shell command -v python3),)
$(error python3 is missing, which everything here is run by: apt-get install python3)
endif

.PHONY: modules modules_install clean install uninstall intree intree-undo
.PHONY: setup kernels demo test soak next bench shell docs timings distclean help

# Variables of the command line are passed on: the kernel's make has many, too.
modules modules_install clean:
	@$(LAB) modules $(KDIR) $@ $(MAKEOVERRIDES)

install uninstall:
	@$(LAB) $@ $(KDIR) $(MAKEOVERRIDES)

intree intree-undo:
	$(if $(KERNEL),,$(error name the kernel's source tree: make $@ KERNEL=<tree>))
	@$(LAB) intree $(KERNEL) $(if $(filter %-undo,$@),--undo)

setup kernels demo next:
	@$(LAB) $@

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
	@echo 'make modules_install  install all of them there; make clean removes what was built'
	@echo 'make install          install kofi.ko, what consumers build with and the client: PREFIX=, DESTDIR=,'
	@echo '                      CLIENT=n without the client; make uninstall removes it all'
	@echo 'make intree           place kOFI in the source tree KERNEL=<tree>; make intree-undo removes it'
	@echo ''
	@echo 'make demo             two kernel modules talk, in a virtual machine'
	@echo 'make test             every test; T=<part of a name> for some, LANE=uml|plain|proof|native for one lane'
	@echo 'make test CHANGED=1   what the changes since the last commit can reach; of a clean tree, those of the last commit'
	@echo 'make timings          which of them took longest'
	@echo '                      KERNEL=7.2|7.3 chooses the series of Linux, here and below'
	@echo 'make next             a trial of the newest series that Debian has beyond the known ones'
	@echo 'make soak             the long tests; T= as above'
	@echo 'make bench            kOFI against raw verbs; LANE=native|plain'
	@echo 'make shell            a virtual machine with both soft RDMA devices; LANE=plain|uml|proof|native'
	@echo 'make docs             the documentation as HTML and as manual pages'
	@echo ''
	@echo 'make setup, kernels   only install packages, only build the test kernels'
	@echo 'make distclean        remove the test kernels and logs from the cache'
