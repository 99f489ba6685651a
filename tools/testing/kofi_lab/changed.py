# SPDX-License-Identifier: GPL-2.0
"""Which tests a change can reach: the working tree's, or the last commit's when the tree is clean."""

import re
import subprocess
import tomllib
from dataclasses import dataclass, field

from .output import LabError
from .paths import TESTING, TREE

FILE = TESTING / "changed.toml"
SUITE = re.compile(r'\.name = "(kofi_\w+)"')


@dataclass
class Reach:
    """Patterns of static checks, scenarios and KUnit suites. No suites stands for all of them."""

    checks: list[str] = field(default_factory=list)
    scenarios: list[str] = field(default_factory=list)
    suites: list[str] = field(default_factory=list)


def files() -> list[str]:
    """Returns the changed files.

    Raises LabError outside a git checkout.
    """
    names = lines("diff", "--name-only", "HEAD") + lines("ls-files", "--others", "--exclude-standard")
    return names or lines("diff", "--name-only", "HEAD~1", "HEAD")


def lines(*words: str) -> list[str]:
    """Returns what git prints."""
    result = subprocess.run(["git", "-C", str(TREE), *words], capture_output=True, text=True, check=False)
    if result.returncode:
        raise LabError(f"git {words[0]}: {result.stderr.strip()}")
    return result.stdout.splitlines()


def rules() -> list[dict]:
    """Returns the rules of changed.toml."""
    return tomllib.loads(FILE.read_text())["reach"]


def reach(names: list[str]) -> Reach:
    """Returns what changes of these files can reach."""
    found = Reach()
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
    return Reach(*(list(dict.fromkeys(each)) for each in (found.checks, found.scenarios, found.suites)))


def own_suites(name: str) -> list[str]:
    """Returns the names of the KUnit suites in a C file of the tests."""
    if not re.fullmatch(r"tools/testing/kunit/\w+\.c", name) or not (TREE / name).is_file():
        return []
    return SUITE.findall((TREE / name).read_text())
