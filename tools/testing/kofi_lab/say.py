# SPDX-License-Identifier: GPL-2.0
"""What a person sees: short lines, and one moving line while something takes long."""

import sys
import time


class LabError(Exception):
    """Something a person has to act on; the message is all they get to see."""


def say(text: str) -> None:
    """One line, also when standard output is a pipe."""
    print(text, flush=True)


class Progress:
    """A line that moves on a terminal, and is repeated once a minute in a log."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.start = time.monotonic()
        self.last = self.start
        self.tty = sys.stdout.isatty()
        say(f"{title} ...")

    def seconds(self) -> int:
        """Whole seconds since the start."""
        return int(time.monotonic() - self.start)

    def step(self, detail: str) -> None:
        """Reports where the work is, no oftener than a reader can follow."""
        now = time.monotonic()
        if now - self.last < (0.5 if self.tty else 60):
            return
        self.last = now
        line = f"  {self.seconds() // 60}:{self.seconds() % 60:02d}  {detail}"
        if self.tty:
            print(f"\r{line[:100]:<100}", end="", flush=True)
        else:
            say(line)

    def done(self, result: str = "done") -> None:
        """Ends the moving line."""
        if self.tty:
            print("\r" + " " * 100, end="\r")
        say(f"{self.title}: {result} ({self.seconds()} s)")
