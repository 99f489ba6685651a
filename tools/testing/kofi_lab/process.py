# SPDX-License-Identifier: GPL-2.0
"""Runs long commands: writes their output to a log, and shows the last line of output as progress."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from .output import LabError, Progress


def run_logged(
    command: list[str],
    title: str,
    log: Path,
    env: dict[str, str],
    detail: Callable[[str], str] = str.strip,
) -> None:
    """Runs a command and writes its output to a log.

    `detail` converts a line of output to the text of the progress line. Raises LabError with the end of
    the log if the command fails.
    """
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
