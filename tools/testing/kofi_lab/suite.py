# SPDX-License-Identifier: GPL-2.0
"""The test command: static checks and the lanes' scenarios, side by side."""

import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace

from . import guest, installed, kernel, kunit_tree, plan, setup, static, timings, tree
from .lane import LANES, lane
from .results import FAILED, PASSED, Results, matches
from .say import LabError, say
from .session import Session


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
    """The lanes, and while they run, the static checks."""
    setup.ensure(*setup.TESTS)
    suites = not named(pattern, lanes)

    def meanwhile() -> None:
        if "proof" in lanes and not suites:
            static.run(kernel.ensure(lane("proof")), results, pattern)

    run_lanes("test", results, lanes, pattern, suites, meanwhile)


def run_lanes(
    kind: str,
    results: Results,
    lanes: list[str],
    pattern: str,
    suites: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """The lanes side by side, and something meanwhile."""
    # The kernels first: what follows then takes its time without interruption.
    wanted = [name for name in LANES if name in lanes and plan.select(kind, lane(name))]
    kernels = [kernel.ensure(lane(name)) for name in wanted]
    running = []
    try:
        # The slowest guest begins first.
        for target in reversed(kernels):
            running.append(LaneRun(kind, target, pattern, suites))
        meanwhile()
    except KeyboardInterrupt:
        guest.end_all()
        raise
    finally:
        for run in running:
            results.tests += run.end().tests


def named(pattern: str, lanes: list[str]) -> bool:
    """Whether the pattern names a scenario or a static check; otherwise it means KUnit suites."""
    if not pattern or pattern.startswith("static"):
        return True
    return any(plan.select("test", lane(name), pattern) for name in lanes)


class LaneRun:
    """A lane's scenarios of a kind: the modules are built, and while their guest runs, others may."""

    def __init__(self, kind: str, target: kernel.Kernel, pattern: str, suites: bool) -> None:
        self.results = Results()
        self.thread: threading.Thread | None = None
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
            if any(scenario.templates for scenario in chosen):
                modules += installed.build_templates(target)
        except tree.ModuleError as error:
            say(str(error))
            self.results.add(name, "build", FAILED, "no modules, or not without warnings")
            return
        self.results.add(name, "build", PASSED)
        session = Session(target, modules, self.results, environment)
        work = (self.results, lambda: run_guests(session, chosen))
        self.thread = threading.Thread(target=guarded, args=work, daemon=True)
        self.thread.start()

    def end(self) -> Results:
        """Waits for its guest; what was counted."""
        if self.thread:
            self.thread.join()
        return self.results


def run_guests(session: Session, chosen: list[plan.Scenario]) -> None:
    """Divides scenarios among as many guests at once as the lane has; those in virtual time come after."""
    lane = session.kernel.lane
    ordinary = [scenario for scenario in chosen if not scenario.virtual]
    threads = []
    for part in timings.divide(lane.name, ordinary, lane.guests):
        each = replace(session, results=Results(), logs=[], words={})
        work = (each.results, lambda each=each, part=part: each.run(part))
        threads.append((each.results, threading.Thread(target=guarded, args=work, daemon=True)))
    for _, thread in threads:
        thread.start()
    for results, thread in threads:
        thread.join()
        session.results.tests += results.tests
    ahead = replace(session, cpus=1, counting=True)
    ahead.run([scenario for scenario in chosen if scenario.virtual])


def soak(pattern: str, lanes: list[str]) -> int:
    """The long scenarios, and a kernel that has kOFI in its own tree."""
    results = Results()
    chosen = [name for name in LANES if name in lanes and plan.select("soak", lane(name), pattern)]

    def meanwhile() -> None:
        if "uml" in lanes and (not pattern or matches(pattern, kunit_tree.NAME)):
            for name, words in kunit_tree.run().items():
                static.record(results, name, words)

    guarded(results, lambda: run_lanes("soak", results, chosen, pattern, meanwhile=meanwhile))
    results.report()
    return 0 if results.good else 1
