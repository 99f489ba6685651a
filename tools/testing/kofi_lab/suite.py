# SPDX-License-Identifier: GPL-2.0
"""The test command: static checks first, then each lane's scenarios."""

import sys
import traceback

from . import kernel, plan, setup, static, tree
from .lane import LANES, lane
from .results import FAILED, PASSED, Results
from .say import LabError, say
from .session import Session


def test(pattern: str, lanes: list[str]) -> int:
    """Runs what the pattern names, or everything; a pattern may also name KUnit suites."""
    results = Results()
    try:
        run_all(results, pattern, lanes)
    except LabError as error:
        say(str(error))
        results.add("lab", "ground", FAILED, str(error).splitlines()[0])
    except Exception as error:  # whatever happens, the counts are the last line
        traceback.print_exc(file=sys.stdout)
        results.add("lab", "ground", FAILED, repr(error))
    results.report()
    return 0 if results.good else 1


def run_all(results: Results, pattern: str, lanes: list[str]) -> None:
    """Static checks, then one lane after another."""
    setup.ensure()
    # The kernels first: what follows then takes its time without interruption.
    kernels = {name: kernel.ensure(lane(name)) for name in LANES if name in lanes}
    suites = not named(pattern, lanes)
    if "proof" in kernels and not suites:
        static.run(kernels["proof"], results, pattern)
    for target in kernels.values():
        run_lane("test", target, results, pattern, suites)


def named(pattern: str, lanes: list[str]) -> bool:
    """Whether the pattern names a scenario or a static check; otherwise it means KUnit suites."""
    if not pattern or pattern.startswith("static"):
        return True
    return any(plan.select("test", lane(name), pattern) for name in lanes)


def run_lane(
    kind: str, target: kernel.Kernel, results: Results, pattern: str, suites: bool = False
) -> None:
    """Builds the modules for a lane and runs its scenarios of a kind."""
    name = target.lane.name
    chosen = plan.select(kind, target.lane, "" if suites else pattern)
    environment = {}
    if suites:
        chosen = [scenario for scenario in chosen if scenario.suites]
        environment["SUITES"] = f"*{pattern}*"
    if not chosen:
        return
    say(f"{name}: building the modules")
    try:
        modules = tree.build(target)
    except tree.ModuleError as error:
        say(str(error))
        results.add(name, "build", FAILED, "the modules do not build, or not without warnings")
        return
    results.add(name, "build", PASSED)
    Session(target, modules, results, environment).run(chosen)


def soak(pattern: str, lanes: list[str]) -> int:
    """The long scenarios."""
    results = Results()
    for name in lanes:
        if plan.select("soak", lane(name), pattern):
            run_lane("soak", kernel.ensure(lane(name)), results, pattern)
    results.report()
    return 0 if results.good else 1
