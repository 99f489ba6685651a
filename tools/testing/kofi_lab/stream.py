# SPDX-License-Identifier: GPL-2.0
"""Long-running commands: their words in a log, their last line on the moving line."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from .output import LabError, Progress


def run(
    command: list[str],
    title: str,
    log: Path,
    env: dict[str, str],
    detail: Callable[[str], str] = str.strip,
) -> None:
    """Runs a command to its end and raises with the tail of its log when it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    progress = Progress(f"{title} (log in {log})")
    with open(log, "w", encoding="utf-8") as sink:
        process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.stdout
        for line in process.stdout:
            sink.write(line)
            progress.step(detail(line))
    if process.wait():
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise LabError(f"{title} failed; {log} ends:\n{tail}")
    progress.done()
