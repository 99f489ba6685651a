# SPDX-License-Identifier: GPL-2.0
"""Compares the locks of the modules with the page that lists them."""

import re
import sys
from pathlib import Path

from .layers import COMMENT_OR_STRING, sources
from .paths import TREE

PAGE = TREE / "Documentation/locking.rst"

# Locks of unit tests only.
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
    """Returns the part of the crate that a file belongs to: a provider's name, or a folder of rust/."""
    names = Path(name).relative_to("rust").with_suffix("").parts
    return names[1] if names[0] == "prov" and len(names) > 1 else names[0]


def without_tests(name: str, text: str) -> str:
    """Returns a file without its unit tests and comments; strings stay."""
    if name in TEST_FILES or name.endswith("/tests.rs"):
        return ""
    text = text.split("#[kunit_tests(")[0]
    return COMMENT_OR_STRING.sub(lambda match: match[0] if match[0][0] == '"' else "", text)


def fields(name: str, code: str) -> list[str]:
    """Returns the locks that the structs of a file have, and its static ones, as `part::Type::field`."""
    part, owner, found = part_of(name), "", []
    has_completions = "Completion::new()" in code
    for line in code.split("\n"):
        if start := STRUCT.match(line) or C_STRUCT.match(line):
            owner = start[1]
            if COMPLETION_IN.search(line):
                found.append(f"{part}::{owner}::0")
        elif line.startswith("}"):
            owner = ""
        elif alone := GLOBAL.match(line) or C_GLOBAL.match(line):
            found.append(f"{part}::{alone[1]}")
        elif owner and (field := FIELD.match(line) or C_FIELD.match(line)):
            found.append(f"{part}::{owner}::{field[1]}")
        elif owner and has_completions and (field := COMPLETION.match(line)):
            found.append(f"{part}::{owner}::{field[1]}")
    return found


def arguments(code: str, start: int) -> str:
    """Returns the arguments of the macro whose parenthesis opens before `start`."""
    depth = 1
    for at in range(start, len(code)):
        depth += (code[at] == "(") - (code[at] == ")")
        if depth == 0:
            return code[start:at]
    return code[start:]


def unnamed(name: str, code: str) -> list[str]:
    """Returns complaints about locks that lockdep would name by file and line."""
    return [
        f"{name}:{code.count(chr(10), 0, maker.start()) + 1}: a lock without the name of its lockdep class"
        for maker in MAKER.finditer(code)
        if not CLASS.search(arguments(code, maker.end()))
    ]


def classes(code: str) -> list[str]:
    """Returns the names of lockdep classes in a file, those of work items included."""
    return CLASS.findall(code)


def compared(files: dict[str, str], page: str) -> list[str]:
    """Returns complaints about locks and classes that the page lacks, has in vain, or that share a name."""
    code = {name: without_tests(name, text) for name, text in files.items()}
    words = [word for name, text in code.items() for word in unnamed(name, text)]
    locks = {lock for name, text in code.items() for lock in fields(name, text)}
    named = [label for text in code.values() for label in classes(text)]
    rows = ROW.findall(page)
    listed = set(LISTED_CLASS.findall(page))
    shared = sorted(label for label in set(named) if named.count(label) > 1)
    words += [f"{label}: two locks or work items have this lockdep class" for label in shared]
    words += [f"{lock}: not in {PAGE.name}" for lock in sorted(locks - set(rows))]
    words += [f"{lock}: in {PAGE.name}, but gone" for lock in sorted(set(rows) - locks)]
    words += [f"{lock}: twice in {PAGE.name}" for lock in sorted(set(rows)) if rows.count(lock) > 1]
    words += [f"{label}: this lockdep class is not in {PAGE.name}" for label in sorted(set(named) - listed)]
    words += [f"{label}: this lockdep class is in {PAGE.name}, but gone" for label in sorted(listed - set(named))]
    return words


def strays() -> list[str]:
    """Returns what is wrong with the page that lists the locks of the modules."""
    files = {name: text for name, text in sources().items() if name.startswith("rust/")}
    files |= {str(path.relative_to(TREE)): path.read_text() for path in sorted((TREE / "rust").rglob("*.[ch]"))}
    return compared(files, PAGE.read_text(encoding="utf-8") if PAGE.exists() else "")


if __name__ == "__main__":
    complaints = strays()
    print("\n".join(complaints) or "clean")
    sys.exit(bool(complaints))
