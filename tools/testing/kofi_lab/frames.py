# SPDX-License-Identifier: GPL-2.0
"""Checks the stack usage of the module: the frame of each function, and the sum of each call chain.

The frames are read from the built module. A chain follows direct calls within the module. It has no calls through
function pointers, and no frames of kernel functions, drivers and consumers' handlers.
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
    """The size of a function's frame in bytes, and the functions that it calls directly."""

    stack: int = 8  # the return address
    calls: set[str] = field(default_factory=set)


def parse(lines: Iterable[str]) -> dict[str, Function]:
    """Returns the functions in a disassembly of objdump -d -r; of namesakes, the one with the largest frame."""
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
    """Returns the deepest call chain from each function: bytes and functions. A recursive call counts once."""
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


def errors_of(functions: dict[str, Function]) -> list[str]:
    """Returns an error for each frame and chain above its limit, largest first, without those of unit tests."""
    own = {name: function for name, function in functions.items() if not TESTS.search(name)}
    errors = [
        (function.stack, f"{name}: its frame has {function.stack} bytes, the limit is {FRAME_LIMIT}")
        for name, function in own.items()
        if function.stack > FRAME_LIMIT
    ]
    for name, (depth, chain) in deepest(own).items():
        if depth > CHAIN_LIMIT and not any(name in function.calls for function in own.values()):
            frames = "".join(f"\n    {own[part].stack:6} {part}" for part in chain)
            errors.append((depth, f"{name}: its call chain has {depth} bytes, the limit is {CHAIN_LIMIT}{frames}"))
    return [text for _, text in sorted(errors, reverse=True)]


def check(kernel: Kernel) -> str:
    """Builds the modules for a kernel, which has to be one without instrumentation. Returns the errors of kofi.o."""
    tree.build(kernel)
    text = disassemble(str(tree.build_folder(kernel) / "kofi.o"))
    functions = parse(text.splitlines())
    if not functions:
        return "kofi.o has no functions: objdump's output was not recognised"
    return "\n".join(errors_of(functions))
