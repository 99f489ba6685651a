# SPDX-License-Identifier: GPL-2.0
"""Paths of the source tree, and of the cache that is kept between runs."""

import os
from pathlib import Path

TESTING = Path(__file__).resolve().parent.parent
TREE = TESTING.parent.parent
CONFIGS = TESTING / "configs"
SCENARIOS = TESTING / "scenarios"
GUEST = TESTING / "guest"

CACHE = Path(os.environ.get("KOFI_CACHE") or Path.home() / ".cache" / "kofi").resolve()
APT = CACHE / "apt"
SOURCES = CACHE / "src"
BUILDS = CACHE / "build"
LOGS = CACHE / "log"
TOOLS = CACHE / "tools"
CCACHE = CACHE / "ccache"
RUNS = CACHE / "run"
