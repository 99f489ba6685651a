# SPDX-License-Identifier: GPL-2.0
"""Builds out-of-tree modules of users against kOFI and a lane's kernel."""

import hashlib
import shutil
from pathlib import Path

from . import plan, tree
from .kernel import Kernel
from .output import LabError
from .paths import SCENARIOS

BUILD_FILES = (".*.cmd", "*.o", "*.ko", "*.mod", "*.mod.c", "*.rmeta", "modules.order", "Module.symvers")


def build(kernel: Kernel, folder: Path) -> list[Path]:
    """Builds the modules of a folder whose Kbuild or Makefile includes $(KOFI)/kofi.mk. Returns the modules.

    A copy in the cache is built; the folder does not change.
    """
    folder = folder.absolute()
    kbuild = next((folder / name for name in ("Kbuild", "Makefile") if (folder / name).is_file()), None)
    if not kbuild:
        raise LabError(f"{folder} has no Kbuild or Makefile that names its modules (obj-m)")
    if "kofi.mk" not in kbuild.read_text():
        raise LabError(f"{kbuild} has to include $(KOFI)/kofi.mk, as those of samples/template do")
    tree.build(kernel)
    checksum = hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    copy = tree.build_folder(kernel, f"module-{folder.name}-{checksum}")
    with tree.locked(copy):
        shutil.rmtree(copy)
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(*BUILD_FILES))
        tree.make(kernel, copy, f"KOFI={tree.build_folder(kernel)}", "modules")
        order = (copy / "modules.order").read_text().split()
    return [(copy / line).with_suffix(".ko") for line in order]


def scenario(modules: list[Path], seconds: int) -> plan.Scenario:
    """Returns a scenario that brings up both soft devices, loads the modules and unloads them."""
    names = " ".join(module.stem for module in modules)
    return plan.Scenario("module", SCENARIOS / "module.sh", seconds, arguments=names)
