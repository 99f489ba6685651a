# SPDX-License-Identifier: GPL-2.0
"""The test command: static checks and the lanes' scenarios, side by side."""

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
    """What a run takes."""

    kind: str
    scenarios: Callable[[Lane], list[plan.Scenario]]
    suites: str = ""  # shell patterns of KUnit suites; all of them when empty
    checks: tuple[str, ...] = ()  # patterns of static checks


def test(pattern: str, lanes: list[str]) -> int:
    """Runs what the pattern names, or everything; a pattern may also name KUnit suites."""
    suites = not named(pattern, lanes)

    def scenarios(lane: Lane) -> list[plan.Scenario]:
        chosen = plan.select("test", lane, "" if suites else pattern)
        return [scenario for scenario in chosen if scenario.suites or not suites]

    checks = (pattern,) if "proof" in lanes and not suites else ()
    return run(Choice("test", scenarios, f"*{pattern}*" if suites else "", checks), lanes)


def test_changes() -> int:
    """Runs what the changes of the working tree, or of the last commit, can reach."""
    names = changed.files()
    reach = changed.reach(names)
    print_line(f"{len(names)} changed files reach: {' '.join([*reach.checks, *reach.scenarios])}")

    def scenarios(lane: Lane) -> list[plan.Scenario]:
        return [item for item in plan.select("test", lane) if is_reached(item.name, reach.scenarios)]

    suites = " ".join(f"*{word}*" for word in reach.suites)
    return run(Choice("test", scenarios, suites, tuple(reach.checks)), ["uml"])


def is_reached(name: str, words: list[str]) -> bool:
    """Returns whether one of the words is a scenario's name; one without arguments stands for all of them."""
    return any(name == word or name.split(".")[0] == word for word in words)


def run(choice: Choice, lanes: list[str]) -> int:
    """Runs the lanes, and while they run, the static checks. Returns the exit status."""
    results = Results()

    def meanwhile(builds_end: Callable[[], None]) -> None:
        if choice.checks:
            target = kernel.ensure(lane("proof"))
            static.read(target, results, choice.checks)
            builds_end()
            static.compile_all(target, results, choice.checks)

    def work() -> None:
        setup.ensure(*setup.TESTS)
        run_lanes(results, choice, lanes, meanwhile)

    guarded(results, work)
    results.report()
    return 0 if results.good else 1


def guarded(results: Results, work: Callable[[], None]) -> None:
    """Does the work; whatever happens is counted, for the counts are the last line."""
    try:
        work()
    except LabError as error:
        print_line(str(error))
        results.add("lab", "ground", FAILED, str(error).splitlines()[0])
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        results.add("lab", "ground", FAILED, repr(error))


def run_lanes(
    results: Results, choice: Choice, lanes: list[str], meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    """Runs the lanes side by side, and `meanwhile`, which can wait until their modules are built."""
    wanted = [name for name in LANES if name in lanes and choice.scenarios(lane(name))]
    # The kernels first: what follows then takes its time without interruption.
    kernels = [kernel.ensure(lane(name)) for name in wanted]
    running = []
    try:
        for target in kernels:
            running.append(LaneRun(choice, target))
        meanwhile(lambda: [each.is_built.wait() for each in running])
    except KeyboardInterrupt:
        guest.end_all()
        raise
    finally:
        for each in running:
            results.tests += each.end().tests


def named(pattern: str, lanes: list[str]) -> bool:
    """Whether the pattern names a scenario or a static check; otherwise it means KUnit suites."""
    if not pattern or pattern.startswith("static"):
        return True
    return any(plan.select("test", lane(name), pattern) for name in lanes)


class LaneRun:
    """A lane's scenarios of a kind, in a thread: the modules are built, and then the guests run."""

    def __init__(self, choice: Choice, target: kernel.Kernel) -> None:
        self.results = Results()
        self.is_built = threading.Event()
        work = (self.results, lambda: self.run(choice, target))
        self.thread = threading.Thread(target=guarded, args=work, daemon=True)
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
            self.results.add(name, "build", FAILED, "no modules, or not without warnings")
            return
        finally:
            self.is_built.set()
        self.results.add(name, "build", PASSED)
        environment = {"SUITES": choice.suites} if choice.suites else {}
        run_guests(Session(target, modules, self.results, environment), chosen)

    def end(self) -> Results:
        """Waits for the guests; what was counted."""
        self.thread.join()
        return self.results


def run_guests(session: Session, chosen: list[plan.Scenario]) -> None:
    """Divides scenarios among as many guests at once as the lane has; those in virtual time come after."""
    lane = session.kernel.lane
    ordinary = [scenario for scenario in chosen if not scenario.virtual]
    threads = []
    for part in timings.divide(lane.name, ordinary, lane.guests):
        each = replace(session, results=Results(), logs=[], output={})
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
    """Runs the long scenarios, and the tests of a kernel that has kOFI in its own tree."""
    results = Results()

    def meanwhile(builds_end: Callable[[], None]) -> None:
        builds_end()
        if "uml" in lanes and (not pattern or matches(pattern, kunit_tree.NAME)):
            for name, words in kunit_tree.run().items():
                static.record(results, name, words)

    choice = Choice("soak", lambda lane: plan.select("soak", lane, pattern))
    guarded(results, lambda: run_lanes(results, choice, lanes, meanwhile))
    results.report()
    return 0 if results.good else 1
