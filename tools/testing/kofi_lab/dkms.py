# SPDX-License-Identifier: GPL-2.0
"""Builds, installs, uses and removes kOFI with dkms for a test kernel, in a staging folder."""

import os
import shutil
import subprocess
from pathlib import Path

from . import client, installed, kdir, tree
from .kernel import Kernel


def dkms(folder: Path, *arguments: str) -> None:
    """Runs dkms with its trees below a folder.

    dkms refuses to run without root, so that other users run it in a user namespace. Raises ModuleError
    with dkms's output and the logs of make if it fails.
    """
    trees = {"dkmstree": "var", "sourcetree": "src", "installtree": "lib/modules"}
    result = subprocess.run(
        [
            *([] if os.geteuid() == 0 else ["unshare", "-r"]),
            *("dkms", *arguments, "--no-depmod"),
            *(word for name, path in trees.items() for word in (f"--{name}", str(folder / path))),
        ],
        env={**os.environ, "KOFI_PREFIX": str(folder / "usr")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode:
        logs = "".join(log.read_text(errors="replace") for log in folder.rglob("make.log"))
        raise tree.ModuleError(f"dkms {' '.join(arguments)}:\n{result.stdout}{logs}")


def check(kernel: Kernel) -> str:
    """Installs kOFI with dkms, builds the templates against it and removes it. Returns the errors, one a line."""
    folder = installed.staging_folder(kernel, "dkms")
    checkout = folder / "checkout"
    tree.sync(checkout)
    for name in ("var", "src"):
        (folder / name).mkdir()
    release = kdir.release(kernel.build)
    modules = folder / "lib/modules" / release
    modules.mkdir(parents=True)
    kofi = folder / "usr/lib/kofi" / release
    module = f"kofi/{client.version()}"
    lines = []

    def require(is_met: bool, error: str) -> None:
        lines.extend([] if is_met else [error])

    dkms(folder, "add", str(checkout))
    # dkms has its own copy: the build must not use the checkout.
    shutil.rmtree(checkout)
    dkms(folder, "install", module, "-k", release, "--kernelsourcedir", str(kernel.build))
    for name in ("kofi.ko", "kofi_perf.ko"):
        require(any(modules.rglob(f"{name}*")), f"dkms install put no {name} into {modules}")
    for template in installed.templates():
        installed.build_template(kernel, template, folder / template.name, kofi)
    dkms(folder, "remove", module, "--all")
    require(not any(modules.rglob("*.ko*")), f"dkms remove left a module in {modules}")
    for path in (kofi, folder / "var/kofi"):
        require(not path.is_symlink() and not path.exists(), f"dkms remove left {path}")
    return "\n".join(lines)
