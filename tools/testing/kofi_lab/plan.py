# SPDX-License-Identifier: GPL-2.0
"""The list of scenarios, and which of them a run takes."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .lane import LANES, Lane
from .output import LabError
from .paths import SCENARIOS, TESTING
from .results import matches
from .splat import Allowance

FILE = TESTING / "plan.toml"
KINDS = ("test", "soak", "demo", "bench", "count")


@dataclass(frozen=True)
class Scenario:
    """A script, and how it is run in one lane."""

    name: str
    script: Path
    seconds: int
    lane: str = ""
    kind: str = "test"
    arguments: str = ""
    suites: bool = False  # whether it runs KUnit suites, which T=pattern may name
    virtual: bool = False  # whether it wants a clock that runs ahead when the guest sleeps
    templates: bool = False  # whether it loads the modules of samples/template

    @property
    def is_siw(self) -> bool:
        """Whether it brings up siw."""
        return bool({"siw", "both"} & set(self.arguments.split()))

    def limit(self, lane: Lane) -> int:
        """Its time limit in that lane, seconds."""
        return self.seconds * lane.timeout_factor


def scenarios() -> list[Scenario]:
    """Returns every scenario of the plan, one for each kind of run, lane and arguments."""
    found = []
    for row in tomllib.loads(FILE.read_text())["scenario"]:
        row = dict(row)
        name = row.pop("name")
        script = SCENARIOS / row.pop("script", f"{name}.sh")
        runs = {kind: row.pop(kind) for kind in KINDS if kind in row}
        soak_seconds = row.pop("soak_seconds", row["seconds"])
        if not runs or not script.exists():
            raise LabError(f"{FILE.name}: {name}: nothing to run, or no such script")
        for kind, lanes in runs.items():
            seconds = soak_seconds if kind == "soak" else row["seconds"]
            for lane, variants in lanes.items():
                if lane not in LANES:
                    raise LabError(f"{FILE.name}: {name}: no lane {lane}")
                for words in variants:
                    full = f"{name}.{words.replace(' ', '.')}" if words else name
                    place = {"lane": lane, "kind": kind, "arguments": words}
                    found.append(Scenario(full, script, **(row | place | {"seconds": seconds})))
    return found


def allowances() -> list[Allowance]:
    """Splats that are expected, each bound to scenarios and with a reason."""
    rows = tomllib.loads(FILE.read_text()).get("allow", [])
    return [
        Allowance(
            re.compile(row["scenario"]),
            re.compile(row["line"]),
            row["reason"],
            re.compile(row["trace"]) if "trace" in row else None,
        )
        for row in rows
    ]


def select(kind: str, lane: Lane, pattern: str = "") -> list[Scenario]:
    """The scenarios of a kind for a lane, in the plan's order."""
    return [
        scenario
        for scenario in scenarios()
        if scenario.kind == kind
        and scenario.lane == lane.name
        and (not pattern or matches(pattern, scenario.name))
    ]
