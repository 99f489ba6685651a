#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Command-line program of kOFI's test lab. `lab.py --help` lists the verbs."""

import sys

from kofi_lab.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
