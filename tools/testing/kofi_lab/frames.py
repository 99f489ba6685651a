# SPDX-License-Identifier: GPL-2.0
"""Checks the kernel stack that the module uses: in one function, and in a call chain from an entry point.

The figures come from the code of the built module. A chain follows direct calls; calls through a table, and what a
kernel function, a driver or a consumer's handler takes, are not counted.
"""

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import toolchain, tree
from .kernel import Kernel

FRAME_LIMIT = 1024  # bytes of one function
CHAIN_LIMIT = 3072  # bytes of all functions that are active at once

# Unit tests run once at load, on a thread of their own.
TESTS = re.compile(r"\btests?::|kunit")

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
ALLOCATION = re.compile(r"\bsubq\s+\$(0x[0-9a-f]+|\d+), %rsp")
PUSH = re.compile(r"\bpushq\s+%")
CALL = re.compile(r"\b(?:callq?|jmp)\s+(?:0x[0-9a-f]+ )?<([^+>]+)>")
TARGET = re.compile(r"R_X86_64_(?:PLT32|PC32)\s+(\S+?)(?:[-+]0x[0-9a-f]+)?$")


@dataclass
class Function:
    """A function's own stack in bytes, and the functions that it calls."""

    stack: int = 8  # the return address
    calls: set[str] = field(default_factory=set)


def parse(lines: Iterable[str]) -> dict[str, Function]:
    """Parses objdump's disassembly with relocations into functions; of functions with one name, keeps the largest."""
    functions: dict[str, Function] = {}
    current, before, is_branch = Function(), 0, False
    for line in lines:
        if match := FUNCTION.match(line):
            current.stack = max(current.stack, before)
            current = functions.setdefault(match[1], Function(0))
            current.stack, before = 8, current.stack
        elif match := ALLOCATION.search(line):
            current.stack += int(match[1], 0)
        elif PUSH.search(line):
            current.stack += 8
        elif is_branch and (match := TARGET.search(line)):
            current.calls.add(match[1])
        elif match := CALL.search(line):
            current.calls.add(match[1])
        is_branch = bool(re.search(r"\b(callq?|jmp)\s", line))
    current.stack = max(current.stack, before)
    return functions


def deepest(functions: dict[str, Function]) -> dict[str, tuple[int, list[str]]]:
    """Returns the deepest chain from each function, in bytes and as a list; follows a recursive call once."""
    found: dict[str, tuple[int, list[str]]] = {}

    def visit(name: str, active: set[str]) -> tuple[int, list[str]]:
        if name in found:
            return found[name]
        function = functions[name]
        below: tuple[int, list[str]] = (0, [])
        for callee in sorted(function.calls):
            if callee in functions and callee not in active:
                below = max(below, visit(callee, active | {callee}))
        found[name] = (function.stack + below[0], [name, *below[1]])
        return found[name]

    for name in functions:
        visit(name, {name})
    return found


def disassemble(path: str) -> str:
    """Returns the module's disassembly with relocations and demangled Rust names."""
    command = [f"{toolchain.llvm()}/bin/llvm-objdump", "-d", "-r", "-C", "--no-show-raw-insn", path]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def complaints(functions: dict[str, Function]) -> list[str]:
    """Returns the frames and chains above their limits, largest first."""
    own = {name: function for name, function in functions.items() if not TESTS.search(name)}
    words = [
        (function.stack, f"{name}: a frame of {function.stack} bytes, the limit is {FRAME_LIMIT}")
        for name, function in own.items()
        if function.stack > FRAME_LIMIT
    ]
    for name, (depth, chain) in deepest(own).items():
        if depth > CHAIN_LIMIT and not any(name in function.calls for function in own.values()):
            frames = "".join(f"\n    {own[part].stack:6} {part}" for part in chain)
            words.append((depth, f"{name}: a chain of {depth} bytes, the limit is {CHAIN_LIMIT}{frames}"))
    return [text for _, text in sorted(words, reverse=True)]


def check(kernel: Kernel) -> str:
    """Builds the modules for a kernel without instrumentation and measures kofi.o."""
    tree.build(kernel)
    text = disassemble(str(tree.build_folder(kernel) / "kofi.o"))
    functions = parse(text.splitlines())
    if not functions:
        return "no function was found in kofi.o"
    return "\n".join(complaints(functions))
