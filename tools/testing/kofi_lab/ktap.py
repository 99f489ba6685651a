# SPDX-License-Identifier: GPL-2.0
"""Parses the KTAP of KUnit and of scenarios with the parser of the kernel's kunit.py."""

import importlib
import re
import sys
from functools import cache
from types import ModuleType
from typing import Any

from . import source
from .results import FAILED, PASSED, SKIPPED

FAILURE = re.compile(r"\bFAILED at \S+$")  # the next line has the expectation


@cache
def kunit(module: str) -> ModuleType:
    """Imports a module of tools/testing/kunit in the kernel's source."""
    folder = str(source.ensure() / "tools/testing/kunit")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(module)


def read(lines: list[str]) -> list[Any]:
    """Returns the top-level tests of a KTAP document that comes without its version line."""
    printer = kunit("kunit_printer").null_printer
    document = kunit("kunit_parser").parse_run_tests(["KTAP version 1", *lines], printer)
    share_log(document)
    return document.subtests


def share_log(test: Any) -> None:
    """Adds the log of each test to its first case.

    Without a plan line, the parser counts the diagnostic lines before the first result as the parent's.
    """
    if test.subtests:
        first = test.subtests[0]
        first.log = [*test.log, *first.log]
    for case in test.subtests:
        share_log(case)


def results(test: Any) -> list[tuple[str, str, str]]:
    """Returns name, outcome and reason of each case of a test, or of the test if it has none.

    A test with cases is an additional result if it crashed, or if it failed although no case did.
    """
    cases = [case for case in test.subtests if case.name]
    found = [(f"{test.name}.{case.name}", *verdict(case)) for case in cases]
    if crashed(test):
        last = cases[-1].name if cases else "its start"
        reason = f"{len(cases)} of {test.expected_count or 'its'} cases have a result; the last is {last}"
        found.append((test.name, FAILED, reason))
    elif not cases or (not test.ok_status() and FAILED not in (outcome for _, outcome, _ in found)):
        found.append((test.name, *verdict(test)))
    return found


def crashed(test: Any) -> bool:
    """Returns whether a test has no result line, or fewer cases than its plan line says."""
    return test.status == kunit("kunit_parser").TestStatus.TEST_CRASHED


def verdict(test: Any) -> tuple[str, str]:
    """Returns outcome and reason of one test."""
    if test.status == kunit("kunit_parser").TestStatus.SKIPPED:
        return SKIPPED, test.skip_reason
    return (PASSED, "") if test.ok_status() else (FAILED, failure_reason(test, test.name))


def failure_reason(test: Any, name: str) -> str:
    """Returns the first diagnostic line about the test called `name`, with the expectation that failed."""
    lines = [line.strip() for line in test.log]
    for line, following in zip(lines, [*lines[1:], ""]):
        if line.startswith(f"# {name}: ") and " pass:" not in line:
            reason = line.removeprefix(f"# {name}: ").strip("# ")
            return f"{reason}: {following}" if FAILURE.search(reason) else reason
    # A parameterised case has its diagnostic lines below each of its values.
    inner = (failure_reason(case, name) for case in test.subtests if not case.ok_status())
    return next(filter(None, inner), test.status.name.lower())
