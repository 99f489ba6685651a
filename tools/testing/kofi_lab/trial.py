# SPDX-License-Identifier: GPL-2.0
"""Tests the newest series of Linux in Debian's archive that is newer than all known ones, and lists the failures.

It builds the uml kernel of that series and the modules, and runs the scenarios of the uml lane.
"""

import re

from . import kernel, plan, series, setup, source, suite, tree
from .kernel import Kernel
from .lane import lane
from .output import LabError, print_line
from .results import FAILED, Results

LANE = "uml"
MAX_LINES = 40  # printed failures

# Errors of gcc and clang, which begin with file and line; of rustc, with file and line in a later line; of make and
# modpost.
C_ERROR = re.compile(r"^\S+?:\d+:\d+: (?:fatal )?error: .*")
RUST_ERROR = re.compile(r"^(error(?:\[E\d+\])?: .*)")
RUST_LOCATION = re.compile(r"^\s*--> (\S+)")
OTHER_ERROR = re.compile(r"^(?:\S+:\d+: \*\*\* (?!\[).*|ERROR: modpost: .*)")


def errors(log: str) -> list[str]:
    """Returns the errors in the output of a build, one line each, without rustc's summary lines."""
    found: list[str] = []
    message = ""
    for line in log.splitlines():
        if match := RUST_ERROR.match(line):
            message = "" if line.startswith(("error: aborting", "error: could not compile")) else match[1]
        elif message and (match := RUST_LOCATION.match(line)):
            found.append(f"{match[1]}: {message}")
            message = ""
        elif C_ERROR.match(line) or OTHER_ERROR.match(line):
            found.append(line.strip())
    return list(dict.fromkeys(found))


def run() -> int:
    """Tests the newest series and prints the failures. Returns 0 if there are none, or no newer series, else 1."""
    names = series.newer(source.archive())
    if not names:
        print_line(f"{source.SUITE} has no series of Linux newer than {series.KNOWN[-1]}, the newest known series")
        return 0
    series.TRIAL[:] = names[:1]
    tree_of_series = source.download(names[0])
    setup.ensure()
    target = kernel.of(lane(LANE), tree_of_series)
    failures = trial(target)
    title = f"Linux {kernel.release(target.source)}"
    if not failures:
        print_line(f"{title}: no failures; {names[0]} can be added to kofi-series in Kbuild")
        return 0
    print_line(f"{title}: {len(failures)} failures:")
    for line in failures[:MAX_LINES]:
        print_line(f"  {line}")
    if len(failures) > MAX_LINES:
        print_line(f"  and {len(failures) - MAX_LINES} more")
    return 1


def trial(target: Kernel) -> list[str]:
    """Returns the dropped symbols, and the failures of the first step that fails: kernel, modules, tests."""
    try:
        with kernel.build_lock():
            dropped = kernel.configure(target)
            kernel.compile_kernel(target)
    except LabError as error:
        log = kernel.log(target)
        text = log.read_text(errors="replace") if log.exists() else ""
        return [f"kernel: {line}" for line in errors(text) or [str(error).splitlines()[0]]]
    failures = [f"configuration: {line}" for line in dropped]
    try:
        tree.build(target)
    except tree.ModuleError as error:
        return failures + [f"modules: {line}" for line in errors(str(error)) or [str(error).splitlines()[0]]]
    results = Results()
    choice = suite.Choice("test", lambda each: plan.select("test", each))
    suite.count_errors(results, lambda: suite.run_lanes(results, choice, [LANE], lambda _: None))
    results.report()
    failed = [f"test: {test.title}  {test.reason}" for test in results.tests if test.outcome == FAILED]
    return failures + failed
