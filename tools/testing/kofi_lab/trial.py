# SPDX-License-Identifier: GPL-2.0
"""Trial of the newest series of Linux that the archive has beyond the known ones: what breaks there.

The uml kernel of that series is built, then the modules, then the scenarios of the uml lane run.
"""

import re

from . import kernel, plan, series, setup, source, suite, tree
from .kernel import Kernel
from .lane import lane
from .output import LabError, print_line
from .results import FAILED, Results

LANE = "uml"
# Lines of a list that a person still reads.
MOST = 40

# An error of gcc or clang with its place; of rustc, whose place follows; of Kbuild's make, or of modpost.
C_ERROR = re.compile(r"^\S+?:\d+:\d+: (?:fatal )?error: .*")
RUST_ERROR = re.compile(r"^(error(?:\[E\d+\])?: .*)")
RUST_PLACE = re.compile(r"^\s*--> (\S+)")
OTHER_ERROR = re.compile(r"^(?:\S+:\d+: \*\*\* (?!\[).*|ERROR: modpost: .*)")


def errors(log: str) -> list[str]:
    """Returns the errors in what a build printed, one line each, without those that only follow from others."""
    found: list[str] = []
    message = ""
    for line in log.splitlines():
        if match := RUST_ERROR.match(line):
            message = "" if line.startswith(("error: aborting", "error: could not compile")) else match[1]
        elif message and (match := RUST_PLACE.match(line)):
            found.append(f"{match[1]}: {message}")
            message = ""
        elif C_ERROR.match(line) or OTHER_ERROR.match(line):
            found.append(line.strip())
    return list(dict.fromkeys(found))


def run() -> int:
    """Tries the newest series and prints what broke as a short list; 0 if nothing did, or if there is none."""
    names = series.newer(source.archive())
    if not names:
        print_line(f"{source.SUITE} has no series of Linux newer than {series.KNOWN[-1]}, the newest known one")
        return 0
    series.TRIAL[:] = names[:1]
    place = source.download(names[0])
    setup.ensure()
    target = kernel.of(lane(LANE), place)
    broken = trial(target)
    title = f"Linux {kernel.release(target.source)}"
    if not broken:
        print_line(f"{title}: nothing broke; {names[0]} can be added to kofi-series in Kbuild")
        return 0
    print_line(f"{title}: {len(broken)} broke:")
    for line in broken[:MOST]:
        print_line(f"  {line}")
    if len(broken) > MOST:
        print_line(f"  and {len(broken) - MOST} more")
    return 1


def trial(target: Kernel) -> list[str]:
    """Returns what broke: in the configuration, then in the first of kernel, modules and tests that fails."""
    try:
        with kernel.alone():
            lost = kernel.configure(target)
            kernel.compile_kernel(target)
    except LabError as error:
        log = kernel.log(target)
        text = log.read_text(errors="replace") if log.exists() else ""
        return [f"kernel: {line}" for line in errors(text) or [str(error).splitlines()[0]]]
    broken = [f"configuration: {line}" for line in lost]
    try:
        tree.build(target)
    except tree.ModuleError as error:
        return broken + [f"modules: {line}" for line in errors(str(error)) or [str(error).splitlines()[0]]]
    results = Results()
    choice = suite.Choice("test", lambda each: plan.select("test", each))
    suite.count_errors(results, lambda: suite.run_lanes(results, choice, [LANE], lambda _: None))
    results.report()
    failed = [f"test: {test.title}  {test.reason}" for test in results.tests if test.outcome == FAILED]
    return broken + failed
