# SPDX-License-Identifier: GPL-2.0
"""The list of scenarios, and which of them a run takes."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .lane import LANES, Lane
from .paths import SCENARIOS, TESTING
from .results import matches
from .say import LabError
from .splat import Allowance

FILE = TESTING / "plan.toml"
KINDS = ("test", "soak", "demo", "bench", "count")


@dataclass(frozen=True)
class Scenario:
    """A script and how it is run."""

    name: str
    script: Path
    seconds: int
    lanes: tuple[str, ...] = tuple(LANES)
    kind: str = "test"
    arguments: str = ""
    suites: bool = False  # whether it runs KUnit suites, which T=pattern may name
    virtual: bool = False  # whether it wants a clock that runs ahead when the guest sleeps
    templates: bool = False  # whether it loads the modules of samples/template

    def limit(self, lane: Lane) -> int:
        """Its time limit in that lane, seconds."""
        return self.seconds * lane.patience


def scenarios() -> list[Scenario]:
    """Every scenario of the plan, one for each variant."""
    found = []
    for row in tomllib.loads(FILE.read_text())["scenario"]:
        row = dict(row)
        name = row.pop("name")
        script = SCENARIOS / row.pop("script", f"{name}.sh")
        lanes = tuple(row.pop("lanes"))
        kind = row.pop("kind", "test")
        if set(lanes) - set(LANES) or kind not in KINDS or not script.exists():
            raise LabError(f"{FILE.name}: {name}: unknown lane, kind or script")
        variants = row.pop("variants", [""])
        for variant in variants:
            full = f"{name}.{variant.replace(' ', '.')}" if variant else name
            found.append(Scenario(full, script, lanes=lanes, kind=kind, arguments=variant, **row))
    return found


def allowances() -> list[Allowance]:
    """Splats that are expected, each bound to scenarios and with a reason."""
    rows = tomllib.loads(FILE.read_text()).get("allow", [])
    return [
        Allowance(re.compile(row["scenario"]), re.compile(row["line"]), row["reason"])
        for row in rows
    ]


def select(kind: str, lane: Lane, pattern: str = "") -> list[Scenario]:
    """The scenarios of a kind for a lane, in the plan's order."""
    return [
        scenario
        for scenario in scenarios()
        if scenario.kind == kind
        and lane.name in scenario.lanes
        and (not pattern or matches(pattern, scenario.name))
    ]
