# SPDX-License-Identifier: GPL-2.0
"""Reads plan.toml: the scenarios of each lane and kind of run, and the splats that are allowed."""

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
    """A script with its arguments and time limit, for one lane and kind of run."""

    name: str
    script: Path
    seconds: int
    lane: str = ""
    kind: str = "test"
    arguments: str = ""
    suites: bool = False  # whether it runs KUnit suites, which T=pattern can select
    virtual: bool = False  # whether it needs a clock that skips the time in which the guest sleeps
    templates: bool = False  # whether it loads the modules of samples/template
    cpus: int = 1  # the number that its guest has in a benchmark

    @property
    def is_siw(self) -> bool:
        """True if the scenario uses siw."""
        return bool({"siw", "both"} & set(self.arguments.split()))

    def limit(self, lane: Lane) -> int:
        """Returns the time without progress after which it is killed in a lane, in seconds."""
        return self.seconds * lane.timeout_factor


def scenarios() -> list[Scenario]:
    """Returns all scenarios of the plan: one for each kind of run, lane and set of arguments."""
    found = []
    for row in tomllib.loads(FILE.read_text())["scenario"]:
        row = dict(row)
        name = row.pop("name")
        script = SCENARIOS / row.pop("script", f"{name}.sh")
        runs = {kind: row.pop(kind) for kind in KINDS if kind in row}
        soak_seconds = row.pop("soak_seconds", row["seconds"])
        if not runs or not script.exists():
            raise LabError(f"{FILE.name}: {name}: it has no run ({', '.join(KINDS)}), or {script} does not exist")
        for kind, lanes in runs.items():
            seconds = soak_seconds if kind == "soak" else row["seconds"]
            for lane, variants in lanes.items():
                if lane not in LANES:
                    raise LabError(f"{FILE.name}: {name}: no lane is called {lane}")
                for arguments in variants:
                    full = f"{name}.{arguments.replace(' ', '.')}" if arguments else name
                    run = {"lane": lane, "kind": kind, "arguments": arguments}
                    found.append(Scenario(full, script, **(row | run | {"seconds": seconds})))
    return found


def allowances() -> list[Allowance]:
    """Returns the allowed splats."""
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
    """Returns the scenarios of a kind of run for a lane whose names match the pattern, in the plan's order."""
    return [
        scenario
        for scenario in scenarios()
        if scenario.kind == kind
        and scenario.lane == lane.name
        and (not pattern or matches(pattern, scenario.name))
    ]
