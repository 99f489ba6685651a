# SPDX-License-Identifier: GPL-2.0
"""Programs that must not compile: what C callers are told at run time, Rust consumers are told here.

Each file of tools/testing/misuse is one. It is compiled twice against the crate, as a sample is: as it
stands, which must succeed, and with `--cfg misuse`, which must fail with the one error that its first
doc line names."""

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


def compiler(place: Path) -> list[str]:
    """How the kernel's make has compiled a sample, without what it made of which."""
    sample = Path(SAMPLE)
    saved = (place / sample.parent / f".{sample.name}.o.cmd").read_text().splitlines()[0]
    # What stands behind a semicolon looks at the object.
    words = shlex.split(saved.split(":=", 1)[1].split(";")[0])
    unwanted = ("--out-dir", "--emit", f"{SAMPLE}.rs", str(sample.parent))
    return [word for word in words if not word.rstrip("/").startswith(unwanted)]


def errors(place: Path, program: Path, *options: str) -> list[str]:
    """The codes of the errors that a program has, or their words where they have none."""
    words = compiler(place)
    variables = [word for word in words if re.match(r"[A-Z_]+=", word)]
    command = ["env", *variables, *words[len(variables) :], *options, "-Adead_code"]
    # The compiler puts its output in the place of what it is told, be that /dev/null.
    with tempfile.TemporaryDirectory() as scratch:
        result = subprocess.run(
            [*command, "--error-format=json", "--emit=metadata", f"--out-dir={scratch}", str(program)],
            cwd=place,
            env={**toolchain.environment(), "RUSTC_BOOTSTRAP": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    found = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    real = [one for one in found if one["level"] == "error" and one["spans"]]
    if result.returncode and not real:
        return [result.stderr.strip() or f"the compiler answered {result.returncode}"]
    return [(one["code"] or {}).get("code") or one["message"] for one in real]


def verdict(place: Path, program: Path) -> str:
    """What is wrong with a program: nothing if it is right, and its misuse is refused as it says."""
    expected = EXPECTED.search(program.read_text(encoding="utf-8"))
    if not expected:
        return "it does not say which error it has"
    right, wrong = errors(place, program), errors(place, program, "--cfg", "misuse")
    if right:
        return f"without its misuse it has {right}"
    if set(wrong) != {expected[1]}:
        return f"its misuse has {wrong or 'no error'} instead of {expected[1]}"
    return ""


def verdicts(kernel: Kernel, prefix: str, pattern: str | tuple[str, ...]) -> dict[str, str]:
    """What is wrong with each program whose test's name matches."""
    names = {f"{prefix}.{path.stem}": path for path in sorted(PROGRAMS.glob("*.rs"))}
    wanted = {name: path for name, path in names.items() if matches(pattern, name)}
    if not wanted:
        return {}
    tree.build(kernel)
    place = tree.build_folder(kernel)
    return {name: verdict(place, path) for name, path in wanted.items()}
