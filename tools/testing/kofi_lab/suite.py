# SPDX-License-Identifier: GPL-2.0
"""The test command: static checks and the lanes' scenarios, side by side."""

import sys
import threading
import traceback
from collections.abc import Callable

from . import guest, kernel, plan, setup, static, tree
from .lane import LANES, lane
from .results import FAILED, PASSED, Results
from .say import LabError, say
from .session import Session

# Two compilers at once would only be slower, and the lane that takes longest is to begin first.
BUILDING = threading.Lock()


def test(pattern: str, lanes: list[str]) -> int:
    """Runs what the pattern names, or everything; a pattern may also name KUnit suites."""
    results = Results()
    guarded(results, lambda: run_all(results, pattern, lanes))
    results.report()
    return 0 if results.good else 1


def guarded(results: Results, work: Callable[[], None]) -> None:
    """Does the work; whatever happens is counted, for the counts are the last line."""
    try:
        work()
    except LabError as error:
        say(str(error))
        results.add("lab", "ground", FAILED, str(error).splitlines()[0])
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        results.add("lab", "ground", FAILED, repr(error))


def run_all(results: Results, pattern: str, lanes: list[str]) -> None:
    """Static checks and lanes. Guests wait more than they work, so that they do not mind company."""
    setup.ensure()
    # The kernels first: what follows then takes its time without interruption.
    kernels = {name: kernel.ensure(lane(name)) for name in LANES if name in lanes}
    suites = not named(pattern, lanes)
    jobs: list[Callable[[Results], None]] = [
        lambda own, target=target: run_lane("test", target, own, pattern, suites)
        for target in reversed(kernels.values())
    ]
    if "proof" in kernels and not suites:
        jobs.insert(1, lambda own: run_static(kernels["proof"], own, pattern))
    side_by_side(results, jobs)


def run_static(target: kernel.Kernel, results: Results, pattern: str) -> None:
    """The static checks, most of whose time is a compiler's."""
    with BUILDING:
        static.run(target, results, pattern)


def side_by_side(results: Results, jobs: list[Callable[[Results], None]]) -> None:
    """Does them all at the same time, and counts them in their order."""
    shares = [Results() for _ in jobs]
    threads = [
        threading.Thread(target=guarded, args=(own, lambda job=job, own=own: job(own)), daemon=True)
        for job, own in zip(jobs, shares)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        guest.end_all()
        raise
    for own in shares:
        results.tests += own.tests


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
    try:
        with BUILDING:
            say(f"{name}: building the modules")
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
