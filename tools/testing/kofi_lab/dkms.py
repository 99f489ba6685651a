# SPDX-License-Identifier: GPL-2.0
"""kOFI through dkms, for a test kernel and in folders of its own: built, installed, used and removed."""

import os
import shutil
import subprocess
from pathlib import Path

from . import client, installed, kdir, tree
from .kernel import Kernel


def dkms(place: Path, *words: str) -> None:
    """Runs dkms on trees below that folder; it asks who it is."""
    trees = {"dkmstree": "var", "sourcetree": "src", "installtree": "lib/modules"}
    result = subprocess.run(
        [
            *([] if os.geteuid() == 0 else ["unshare", "-r"]),
            *("dkms", *words, "--no-depmod"),
            *(word for name, path in trees.items() for word in (f"--{name}", str(place / path))),
        ],
        env={**os.environ, "KOFI_PREFIX": str(place / "usr")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode:
        logs = "".join(log.read_text(errors="replace") for log in place.rglob("make.log"))
        raise tree.ModuleError(f"dkms {' '.join(words)}:\n{result.stdout}{logs}")


def complaints(kernel: Kernel) -> str:
    """What is not as it should be."""
    place = installed.stage(kernel, "dkms")
    checkout = place / "checkout"
    tree.sync(checkout)
    for name in ("var", "src"):
        (place / name).mkdir()
    release = kdir.release(kernel.build)
    modules = place / "lib/modules" / release
    modules.mkdir(parents=True)
    home = place / "usr/lib/kofi" / release
    module = f"kofi/{client.version()}"
    lines = []

    def check(good: bool, words: str) -> None:
        lines.extend([] if good else [words])

    dkms(place, "add", str(checkout))
    # It is not there to be looked at by whoever builds.
    shutil.rmtree(checkout)
    dkms(place, "install", module, "-k", release, "--kernelsourcedir", str(kernel.build))
    for name in ("kofi.ko", "kofi_perf.ko"):
        check(any(modules.rglob(f"{name}*")), f"there is no {name}")
    for template in installed.templates():
        installed.build_template(kernel, template, place / template.name, home)
    dkms(place, "remove", module, "--all")
    check(not any(modules.rglob("*.ko*")), "a module is left")
    check(not home.is_symlink() and not home.exists(), f"{home} is left")
    check(not (place / "var/kofi").exists(), f"{place / 'var/kofi'} is left")
    return "\n".join(lines)
