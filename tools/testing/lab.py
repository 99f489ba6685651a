#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The test lab of kOFI: kernels, guests and tests. `lab.py --help` lists the verbs."""

import sys

from kofi_lab.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
