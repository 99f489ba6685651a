# SPDX-License-Identifier: GPL-2.0
"""Selects the tests that the uncommitted changes affect or, in a clean tree, those of the last commit."""

import re
import subprocess
import tomllib
from dataclasses import dataclass, field

from .output import LabError
from .paths import TESTING, TREE

FILE = TESTING / "changed.toml"
SUITE = re.compile(r'\.name = "(kofi_\w+)"')


@dataclass
class Affected:
    """Patterns of static checks, scenarios and KUnit suites. An empty list of suites stands for all suites."""

    checks: list[str] = field(default_factory=list)
    scenarios: list[str] = field(default_factory=list)
    suites: list[str] = field(default_factory=list)


def files() -> list[str]:
    """Returns the changed files.

    Raises LabError outside a git checkout.
    """
    names = git("diff", "--name-only", "HEAD") + git("ls-files", "--others", "--exclude-standard")
    return names or git("diff", "--name-only", "HEAD~1", "HEAD")


def git(*arguments: str) -> list[str]:
    """Runs git in the checkout. Returns the lines of its output."""
    result = subprocess.run(["git", "-C", str(TREE), *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise LabError(f"git {arguments[0]}: {result.stderr.strip()}")
    return result.stdout.splitlines()


def rules() -> list[dict]:
    """Returns the rules of changed.toml."""
    return tomllib.loads(FILE.read_text())["reach"]


def affected(names: list[str]) -> Affected:
    """Returns the tests that changes of these files affect."""
    found = Affected()
    takes_all = False
    for name in names:
        for rule in rules():
            if not re.match(rule["files"], name):
                continue
            found.checks += rule.get("checks", [])
            found.scenarios += rule.get("scenarios", [])
            found.suites += rule.get("suites", [])
            takes_all |= any(item.startswith("kunit") for item in rule.get("scenarios", [])) and "suites" not in rule
        if match := re.fullmatch(r"tools/testing/scenarios/(\w+)\.sh", name):
            found.scenarios.append(match[1])
        if suites := own_suites(name):
            found.scenarios += ["kunit.rxe", "kunit.siw", "kunit.loop"]
            found.suites += suites
    if takes_all:
        found.suites = []
    return Affected(*(list(dict.fromkeys(each)) for each in (found.checks, found.scenarios, found.suites)))


def own_suites(name: str) -> list[str]:
    """Returns the names of the KUnit suites in a C file of the tests."""
    if not re.fullmatch(r"tools/testing/kunit/\w+\.c", name) or not (TREE / name).is_file():
        return []
    return SUITE.findall((TREE / name).read_text())
