# SPDX-License-Identifier: GPL-2.0
#
# `make` builds the modules for a kernel of yours; everything else works on test kernels that the
# lab builds for itself. The modules' own rules are in Kbuild.

KDIR ?= /lib/modules/$(shell uname -r)/build
LAB := python3 tools/testing/lab.py

ifeq ($(shell command -v python3),)
$(error python3 is missing, which everything here is run by: apt-get install python3)
endif

.PHONY: modules modules_install clean setup kernels demo test soak bench shell docs distclean help

modules modules_install clean:
	@$(LAB) modules $(KDIR) $@

setup kernels demo:
	@$(LAB) $@

test soak:
	@$(LAB) $@ $(if $(T),'$(T)') $(addprefix --lane ,$(LANE))

bench:
	@$(LAB) bench $(LANE)

shell:
	@$(LAB) shell $(LANE)

docs:
	@$(LAB) docs

distclean:
	@$(LAB) clean

help:
	@echo 'make                  build the modules for the running kernel, or for KDIR=<build folder>'
	@echo 'make modules_install  install them there; make clean removes what was built'
	@echo ''
	@echo 'make demo             two kernel modules talk, in a virtual machine'
	@echo 'make test             every test; T=<part of a name> for some, LANE=uml|plain|proof for one lane'
	@echo 'make soak             the long tests; T= as above'
	@echo 'make bench            kOFI against raw verbs; LANE=uml|plain'
	@echo 'make shell            a virtual machine with both soft RDMA devices; LANE=plain|proof|uml'
	@echo 'make docs             the documentation as HTML and as manual pages'
	@echo ''
	@echo 'make setup, kernels   only install packages, only build the test kernels'
	@echo 'make distclean        remove the test kernels and logs from the cache'
