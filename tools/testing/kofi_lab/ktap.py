# SPDX-License-Identifier: GPL-2.0
"""Results in KTAP, of KUnit and of scenarios, as the kernel's own parser reads them."""

import importlib
import re
import sys
from functools import cache
from types import ModuleType
from typing import Any

from . import source
from .results import FAILED, PASSED, SKIPPED

FAILURE = re.compile(r"\bFAILED at \S+$")  # of an expectation, which the next line names


@cache
def kunit(module: str) -> ModuleType:
    """Imports a module of tools/testing/kunit in the kernel's source."""
    folder = str(source.ensure() / "tools/testing/kunit")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(module)


def read(lines: list[str]) -> list[Any]:
    """Returns the parser's test for each one at the top of a document, whose version line is left out."""
    printer = kunit("kunit_printer").null_printer
    document = kunit("kunit_parser").parse_run_tests(["KTAP version 1", *lines], printer)
    share_log(document)
    return document.subtests


def share_log(test: Any) -> None:
    """Gives the first case what came ahead of it: without a plan between, the parser leaves it to the parent."""
    if test.subtests:
        first = test.subtests[0]
        first.log = [*test.log, *first.log]
    for case in test.subtests:
        share_log(case)


def results(test: Any) -> list[tuple[str, str, str]]:
    """Returns name, outcome and reason of each case of a test, or of itself when it has none.

    A test with cases counts besides when it broke off, or failed while none of them did.
    """
    cases = [case for case in test.subtests if case.name]
    found = [(f"{test.name}.{case.name}", *verdict(case)) for case in cases]
    if crashed(test):
        last = cases[-1].name if cases else "its start"
        reason = f"{len(cases)} of {test.expected_count or 'its'} cases reported; it stopped after {last}"
        found.append((test.name, FAILED, reason))
    elif not cases or (not test.ok_status() and FAILED not in (outcome for _, outcome, _ in found)):
        found.append((test.name, *verdict(test)))
    return found


def crashed(test: Any) -> bool:
    """Returns whether a test has no result line, or lacks some of the cases that it announced."""
    return test.status == kunit("kunit_parser").TestStatus.TEST_CRASHED


def verdict(test: Any) -> tuple[str, str]:
    """Returns outcome and reason of one result line."""
    if test.status == kunit("kunit_parser").TestStatus.SKIPPED:
        return SKIPPED, test.skip_reason
    return (PASSED, "") if test.ok_status() else (FAILED, complaint(test, test.name))


def complaint(test: Any, name: str) -> str:
    """Returns the first diagnostic line about a test of that name, and what it expected."""
    lines = [line.strip() for line in test.log]
    for line, following in zip(lines, [*lines[1:], ""]):
        if line.startswith(f"# {name}: ") and " pass:" not in line:
            reason = line.removeprefix(f"# {name}: ").strip("# ")
            return f"{reason}: {following}" if FAILURE.search(reason) else reason
    # The values of a parameter have lines of their own.
    inner = (complaint(case, name) for case in test.subtests if not case.ok_status())
    return next(filter(None, inner), test.status.name.lower())
