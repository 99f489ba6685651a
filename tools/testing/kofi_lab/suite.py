# SPDX-License-Identifier: GPL-2.0
"""Runs the tests: the static checks and the scenarios of all lanes, at the same time."""

import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace

from . import changed, guest, installed, kernel, kunit_tree, plan, setup, static, timings, tree
from .lane import LANES, Lane, lane
from .output import LabError, print_line
from .results import FAILED, PASSED, Results, matches
from .session import Session


@dataclass(frozen=True)
class Choice:
    """The selection of a run: its kind, scenarios, KUnit suites and static checks."""

    kind: str
    scenarios: Callable[[Lane], list[plan.Scenario]]
    suites: str = ""  # shell patterns of KUnit suites; empty for all
    checks: tuple[str, ...] = ()  # patterns of static checks


def test(pattern: str, lanes: list[str]) -> int:
    """Runs the tests that match the pattern, or all. Returns the exit status.

    A pattern that matches no scenario and does not begin with `static` selects KUnit suites.
    """
    suites = not matches_tests(pattern, lanes)

    def scenarios(lane: Lane) -> list[plan.Scenario]:
        chosen = plan.select("test", lane, "" if suites else pattern)
        return [scenario for scenario in chosen if scenario.suites or not suites]

    checks = (pattern,) if "plain" in lanes and not suites else ()
    return run(Choice("test", scenarios, f"*{pattern}*" if suites else "", checks), lanes)


def test_changes() -> int:
    """Runs the tests that the changed files affect, on the uml lane. Returns the exit status."""
    names = changed.files()
    affected = changed.affected(names)
    print_line(f"{len(names)} changed files affect: {' '.join([*affected.checks, *affected.scenarios])}")

    def scenarios(lane: Lane) -> list[plan.Scenario]:
        return [item for item in plan.select("test", lane) if is_selected(item.name, affected.scenarios)]

    suites = " ".join(f"*{suite}*" for suite in affected.suites)
    return run(Choice("test", scenarios, suites, tuple(affected.checks)), ["uml"])


def is_selected(name: str, selected: list[str]) -> bool:
    """Returns whether a scenario is in the list, by its full name or by its name without arguments."""
    return any(name == one or name.split(".")[0] == one for one in selected)


def run(choice: Choice, lanes: list[str]) -> int:
    """Runs the lanes and the static checks at the same time. Returns the exit status."""
    results = Results()

    def run_checks(wait_for_builds: Callable[[], None]) -> None:
        if choice.checks:
            target = kernel.ensure(lane("plain"))
            static.run_reading(target, results, choice.checks)
            wait_for_builds()
            static.run_compiling(target, results, choice.checks)

    def work() -> None:
        setup.ensure(*setup.DOCS)
        run_lanes(results, choice, lanes, run_checks)

    count_errors(results, work)
    results.report()
    return 0 if results.good else 1


def count_errors(results: Results, work: Callable[[], None]) -> None:
    """Calls `work` and counts an exception as a failed test, so that the summary is always printed."""
    try:
        work()
    except LabError as error:
        print_line(str(error))
        results.add("lab", "error", FAILED, str(error).splitlines()[0])
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        results.add("lab", "error", FAILED, repr(error))


def run_lanes(
    results: Results, choice: Choice, lanes: list[str], run_checks: Callable[[Callable[[], None]], None]
) -> None:
    """Runs the lanes and `run_checks` at the same time.

    The argument of `run_checks` is a function that waits until the modules of all lanes are built.
    """
    wanted = [name for name in LANES if name in lanes and choice.scenarios(lane(name))]
    # The kernels are built first, one after another, so that no build slows the guests of another lane.
    kernels = [kernel.ensure(lane(name)) for name in wanted]
    running = []
    try:
        for target in kernels:
            running.append(LaneRun(choice, target))
        run_checks(lambda: [each.is_built.wait() for each in running])
    except KeyboardInterrupt:
        guest.end_all()
        raise
    finally:
        for each in running:
            results.tests += each.wait().tests


def matches_tests(pattern: str, lanes: list[str]) -> bool:
    """Returns whether the pattern selects scenarios or static checks, and not KUnit suites."""
    if not pattern or pattern.startswith("static"):
        return True
    return any(plan.select("test", lane(name), pattern) for name in lanes)


class LaneRun:
    """A thread that builds the modules of a lane and runs its scenarios."""

    def __init__(self, choice: Choice, target: kernel.Kernel) -> None:
        self.results = Results()
        self.is_built = threading.Event()
        work = (self.results, lambda: self.run(choice, target))
        self.thread = threading.Thread(target=count_errors, args=work, daemon=True)
        self.thread.start()

    def run(self, choice: Choice, target: kernel.Kernel) -> None:
        """Builds the modules and runs the guests."""
        chosen = choice.scenarios(target.lane)
        name = target.lane.name
        try:
            print_line(f"{name}: building the modules")
            modules = tree.build(target)
            if any(scenario.templates for scenario in chosen):
                modules += installed.build_templates(target)
        except tree.ModuleError as error:
            print_line(str(error))
            self.results.add(name, "build", FAILED, "the modules do not build without warnings")
            return
        finally:
            self.is_built.set()
        self.results.add(name, "build", PASSED)
        environment = {"SUITES": choice.suites} if choice.suites else {}
        run_guests(Session(target, modules, self.results, environment), chosen)

    def wait(self) -> Results:
        """Waits until all guests have ended. Returns the results."""
        self.thread.join()
        return self.results


def run_guests(session: Session, chosen: list[plan.Scenario]) -> None:
    """Runs scenarios in several guests at the same time, then those that need virtual time in one guest."""
    lane = session.kernel.lane
    ordinary = [scenario for scenario in chosen if not scenario.virtual]
    threads = []
    for part in timings.divide(lane.name, ordinary, lane.guests):
        each = replace(session, results=Results(), logs=[], output={})
        work = (each.results, lambda each=each, part=part: each.run(part))
        threads.append((each.results, threading.Thread(target=count_errors, args=work, daemon=True)))
    for _, thread in threads:
        thread.start()
    for results, thread in threads:
        thread.join()
        session.results.tests += results.tests
    virtual = replace(session, cpus=1, counting=True)
    virtual.run([scenario for scenario in chosen if scenario.virtual])


def soak(pattern: str, lanes: list[str]) -> int:
    """Runs the long scenarios and checks, and the tests of a kernel with kOFI in its tree. Returns the exit status.

    The lanes run one after another: beside the guests of other lanes, long KUnit cases would exceed KUnit's time limit.
    """
    results = Results()
    choice = Choice("soak", lambda lane: plan.select("soak", lane, pattern))

    def work() -> None:
        setup.ensure(*setup.SOAK)
        for name in LANES:
            if name in lanes:
                run_lanes(results, choice, [name], lambda wait_for_builds: wait_for_builds())
        if "plain" in lanes:
            static.run(static.SOAK, kernel.ensure(lane("plain")), results, pattern)
        if "uml" in lanes and (not pattern or matches(pattern, kunit_tree.NAME)):
            for name, errors in kunit_tree.run().items():
                static.record(results, name, errors)

    count_errors(results, work)
    results.report()
    return 0 if results.good else 1
