# SPDX-License-Identifier: GPL-2.0
"""Prints lines and progress to standard output, and defines the error that the command line reports."""

import sys
import time


class LabError(Exception):
    """An error that the user can act on. The command line prints its message without a traceback."""


def print_line(text: str) -> None:
    """Prints a line and flushes it, so that it also appears at once in a pipe."""
    print(text, flush=True)


class Progress:
    """A progress line, which is overwritten on a terminal and printed at most once a minute in a log."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.start = time.monotonic()
        self.last = self.start
        self.tty = sys.stdout.isatty()
        print_line(f"{title} ...")

    def seconds(self) -> int:
        """Returns the whole seconds since the start."""
        return int(time.monotonic() - self.start)

    def step(self, detail: str) -> None:
        """Prints the progress if the last line is old enough: half a second on a terminal, a minute in a log."""
        now = time.monotonic()
        if now - self.last < (0.5 if self.tty else 60):
            return
        self.last = now
        line = f"  {self.seconds() // 60}:{self.seconds() % 60:02d}  {detail}"
        if self.tty:
            print(f"\r{line[:100]:<100}", end="", flush=True)
        else:
            print_line(line)

    def done(self, result: str = "done") -> None:
        """Clears the progress line and prints the result."""
        if self.tty:
            print("\r" + " " * 100, end="\r")
        print_line(f"{self.title}: {result} ({self.seconds()} s)")
