# SPDX-License-Identifier: GPL-2.0
"""Checks that misuse of the Rust API does not compile.

Each file of tools/testing/misuse is compiled twice with the command of a sample: without `--cfg misuse`, which must
succeed, and with it, which must fail with exactly the error that the first doc line names.
"""

import json
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from . import toolchain, tree
from .kernel import Kernel
from .paths import TESTING
from .results import matches

PROGRAMS = TESTING / "misuse"
SAMPLE = "samples/rust/msg_client_rs"
EXPECTED = re.compile(r"^//! (E\d{4}): ", re.MULTILINE)


def compiler(folder: Path) -> list[str]:
    """Returns the command with which the kernel's make compiled a sample, without its source and outputs."""
    sample = Path(SAMPLE)
    saved = (folder / sample.parent / f".{sample.name}.o.cmd").read_text().splitlines()[0]
    # The command after the semicolon checks the object file.
    words = shlex.split(saved.split(":=", 1)[1].split(";")[0])
    unwanted = ("--out-dir", "--emit", f"{SAMPLE}.rs", str(sample.parent))
    return [word for word in words if not word.rstrip("/").startswith(unwanted)]


def errors(folder: Path, program: Path, *options: str) -> list[str]:
    """Compiles a program. Returns the codes of its errors, or the messages of those without a code."""
    words = compiler(folder)
    variables = [word for word in words if re.match(r"[A-Z_]+=", word)]
    command = ["env", *variables, *words[len(variables) :], *options, "-Adead_code"]
    # rustc would replace an output file, even /dev/null: it gets a folder.
    with tempfile.TemporaryDirectory() as scratch:
        result = subprocess.run(
            [*command, "--error-format=json", "--emit=metadata", f"--out-dir={scratch}", str(program)],
            cwd=folder,
            env={**toolchain.environment(), "RUSTC_BOOTSTRAP": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    found = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    real = [one for one in found if one["level"] == "error" and one["spans"]]
    if result.returncode and not real:
        return [result.stderr.strip() or f"rustc exited with {result.returncode}"]
    return [(one["code"] or {}).get("code") or one["message"] for one in real]


def check_program(folder: Path, program: Path) -> str:
    """Returns the error of a program, or an empty string if only its misuse fails, with the expected error."""
    expected = EXPECTED.search(program.read_text(encoding="utf-8"))
    if not expected:
        return f"{program.name} has no first line of the form `//! E0000: reason`"
    correct, misused = errors(folder, program), errors(folder, program, "--cfg", "misuse")
    if correct:
        return f"{program.name} fails without --cfg misuse: {correct}"
    if set(misused) != {expected[1]}:
        return f"{program.name} has {misused or 'no error'} with --cfg misuse instead of {expected[1]}"
    return ""


def check(kernel: Kernel, prefix: str, pattern: str | tuple[str, ...]) -> dict[str, str]:
    """Compiles the programs whose tests match the pattern. Returns the error of each test, empty if it passed."""
    names = {f"{prefix}.{path.stem}": path for path in sorted(PROGRAMS.glob("*.rs"))}
    wanted = {name: path for name, path in names.items() if matches(pattern, name)}
    if not wanted:
        return {}
    tree.build(kernel)
    folder = tree.build_folder(kernel)
    return {name: check_program(folder, path) for name, path in wanted.items()}
