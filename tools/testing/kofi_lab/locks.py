# SPDX-License-Identifier: GPL-2.0
"""Compares the locks of the modules and their lockdep classes with Documentation/locking.rst."""

import re
import sys
from pathlib import Path

from .layers import COMMENT_OR_STRING, KUNIT_TESTS, sources
from .paths import TREE

PAGE = TREE / "Documentation/locking.rst"

# Files of unit tests, whose locks need no row.
TEST_FILES = {"rust/fi/tests/drop_in_interrupt.rs", "rust/fi/tests/dummy_provider.rs"}

KINDS = (
    "Mutex|SpinLock|SpinLockIrq|FastLockIrq|BiasedLock|LockedList|CondVar|TimedCompletion|SequenceWait|Rundown|Signal"
)
STRUCT = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum) (\w+)")
FIELD = re.compile(rf"^\s*(?:pub(?:\([^)]*\))? )?(\w+): (?:(?:Arc|Pin|KBox)<)*(?:{KINDS})\b(?!::)")
# `Completion` is also an entry of a completion queue, whose constructor has arguments.
COMPLETION = re.compile(r"^\s*(\w+): Completion,$")
COMPLETION_IN = re.compile(r"\(Arc<sync::Completion>\)")
GLOBAL = re.compile(rf"^\s*(?:unsafe\(uninit\) )?static (\w+): (?:{KINDS})<")

C_STRUCT = re.compile(r"^struct (\w+) \{")
C_FIELD = re.compile(r"^\s+(?:spinlock_t|struct mutex|wait_queue_head_t|struct completion)\s+(\w+);")
C_GLOBAL = re.compile(r"^(?:static )?DEFINE_(?:MUTEX|SPINLOCK)\((\w+)\)")

MAKER = re.compile(r"\b(?:new_mutex|new_spinlock|new_spinlock_irq|new_condvar)!\(")
CLASS = re.compile(r'(?<!\w)c?"(kofi(?:_perf)?(?:::\w+)+)"')

ROW = re.compile(r"^   \* - ``([\w:]+)``", re.MULTILINE)
LISTED_CLASS = re.compile(r"``(kofi(?:_perf)?(?:::\w+)+)``")


def part_of(name: str) -> str:
    """Returns the part of the crate that a file belongs to: a provider, or a folder of rust/."""
    names = Path(name).relative_to("rust").with_suffix("").parts
    return names[1] if names[0] == "prov" and len(names) > 1 else names[0]


def without_tests(name: str, text: str) -> str:
    """Returns the text of a file without unit tests and comments, but with strings."""
    if name in TEST_FILES or name.endswith("/tests.rs"):
        return ""
    text = KUNIT_TESTS.split(text)[0]
    return COMMENT_OR_STRING.sub(lambda match: match[0] if match[0][0] == '"' else "", text)


def fields(name: str, code: str) -> list[str]:
    """Returns the locks in the structs and static variables of a file, as `part::Type::field`."""
    part, owner, found = part_of(name), "", []
    has_completions = "Completion::new()" in code
    for line in code.split("\n"):
        if start := STRUCT.match(line) or C_STRUCT.match(line):
            owner = start[1]
            if COMPLETION_IN.search(line):
                found.append(f"{part}::{owner}::0")
        elif line.startswith("}"):
            owner = ""
        elif variable := GLOBAL.match(line) or C_GLOBAL.match(line):
            found.append(f"{part}::{variable[1]}")
        elif owner and (field := FIELD.match(line) or C_FIELD.match(line)):
            found.append(f"{part}::{owner}::{field[1]}")
        elif owner and has_completions and (field := COMPLETION.match(line)):
            found.append(f"{part}::{owner}::{field[1]}")
    return found


def arguments(code: str, start: int) -> str:
    """Returns the arguments of a macro; its opening parenthesis is before `start`."""
    depth = 1
    for at in range(start, len(code)):
        depth += (code[at] == "(") - (code[at] == ")")
        if depth == 0:
            return code[start:at]
    return code[start:]


def unnamed(name: str, code: str) -> list[str]:
    """Returns an error for each lock without a named lockdep class, which lockdep would name by file and line."""
    return [
        f"{name}:{code.count(chr(10), 0, maker.start()) + 1}: name the lockdep class of this lock (kofi::Type::field)"
        for maker in MAKER.finditer(code)
        if not CLASS.search(arguments(code, maker.end()))
    ]


def classes(code: str) -> list[str]:
    """Returns the names of the lockdep classes of locks and work items in a file."""
    return CLASS.findall(code)


def compare(files: dict[str, str], page: str) -> list[str]:
    """Returns an error for each lock or class that is missing or outdated in the page, or has no unique name."""
    code = {name: without_tests(name, text) for name, text in files.items()}
    errors = [error for name, text in code.items() for error in unnamed(name, text)]
    locks = {lock for name, text in code.items() for lock in fields(name, text)}
    named = [label for text in code.values() for label in classes(text)]
    rows = ROW.findall(page)
    listed = set(LISTED_CLASS.findall(page))
    shared = sorted(label for label in set(named) if named.count(label) > 1)
    errors += [f"{label}: two locks or work items have this lockdep class" for label in shared]
    errors += [f"{lock}: add this lock to {PAGE.name}" for lock in sorted(locks - set(rows))]
    errors += [f"{lock}: remove this lock from {PAGE.name}, the code has none" for lock in sorted(set(rows) - locks)]
    errors += [f"{lock}: {PAGE.name} has several rows for it" for lock in sorted(set(rows)) if rows.count(lock) > 1]
    errors += [f"{label}: add this lockdep class to {PAGE.name}" for label in sorted(set(named) - listed)]
    errors += [
        f"{label}: remove this lockdep class from {PAGE.name}, the code has none"
        for label in sorted(listed - set(named))
    ]
    return errors


def check() -> list[str]:
    """Returns the differences between the locks of the tree and the page."""
    files = {name: text for name, text in sources().items() if name.startswith("rust/")}
    files |= {str(path.relative_to(TREE)): path.read_text() for path in sorted((TREE / "rust").rglob("*.[ch]"))}
    return compare(files, PAGE.read_text(encoding="utf-8") if PAGE.exists() else "")


if __name__ == "__main__":
    errors = check()
    print("\n".join(errors) or "no errors")
    sys.exit(bool(errors))
