# SPDX-License-Identifier: GPL-2.0
"""An installation for a test kernel, and the modules of samples/template built against it."""

import os
import shutil
import subprocess
from pathlib import Path, PurePath

from . import client, install, kdir, toolchain, tree
from .kernel import Kernel
from .paths import TREE
from .receipt import NAME

PREFIX = PurePath("/usr/local")
TEMPLATES = TREE / "samples/template"


def make(place: Path, *words: str, **variables: str) -> str:
    """Runs a Makefile of ours, as a person would, with more variables in the environment; returns what it prints."""
    environment = {name: text for name, text in os.environ.items() if name not in toolchain.OF_MAKE}
    result = subprocess.run(
        ["make", "-C", str(place), *words],
        env=environment | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode or tree.WARNING.search(result.stdout):
        raise tree.ModuleError(f"make {' '.join(words)} in {place}:\n{result.stdout}")
    return result.stdout


def stage(kernel: Kernel, purpose: str) -> Path:
    """An empty folder to install into."""
    place = tree.folder(kernel, purpose)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return place


def install_into(kernel: Kernel, root: Path) -> None:
    """Runs `make install` of the checkout, without the client, which is compiled elsewhere.

    The compiler is that of the lane's modules: Kbuild compiles again whatever another command has made.
    """
    built = tree.folder(kernel)
    compiler, variables = toolchain.caching()
    with tree.locked(built):
        tree.sync(built)
        words = ["install", f"KDIR={kernel.build}", f"DESTDIR={root}", f"PREFIX={PREFIX}", "CLIENT=n", *compiler]
        make(built, *words, **variables)


def build_templates(kernel: Kernel) -> list[Path]:
    """The templates' modules, of copies that know nothing of this checkout."""
    root = stage(kernel, "installed")
    install_into(kernel, root)
    home = Path(f"{root}{PREFIX}/lib/kofi/{kdir.release(kernel.build)}")
    copies = [stage(kernel, f"template-{template.name}") for template in templates()]
    return [build_template(kernel, *each, home) for each in zip(templates(), copies)]


def templates() -> list[Path]:
    """Their folders."""
    return sorted(path for path in TEMPLATES.iterdir() if path.is_dir())


def build_template(kernel: Kernel, template: Path, copy: Path, home: Path) -> Path:
    """The module of a copy that knows nothing of this checkout."""
    shutil.copytree(template, copy, dirs_exist_ok=True)
    make(copy, f"KDIR={kernel.build}", f"KOFI={home}")
    return next(copy.glob("*.ko"))


def expected(release: str) -> set[str]:
    """Every file that an installation has."""
    home = PREFIX / "lib/kofi"
    headers = (path.relative_to(TREE) for path in (TREE / "include").rglob("*.h"))
    files = [home / release / path for path in headers]
    files += [home / release / name for name in (*install.GIVEN, *install.MADE, NAME)]
    files += [PREFIX / "share" / path for path in install.said_by(client.build())]
    files += [PREFIX / "include/linux" / header.name for header in install.UAPI]
    files += [PREFIX / "bin/kofi", home / "client" / NAME]
    modules = {f"/lib/modules/{release}/updates/{name}.ko" for name in ("kofi", "kofi_perf")}
    return {str(path) for path in files} | modules


def complaints(kernel: Kernel) -> str:
    """What an installation has too much or too little, and what its removal leaves."""
    root = stage(kernel, "staged")
    system = install.System(str(root), PREFIX)
    # Twice, as for an update.
    for _ in range(2):
        install_into(kernel, root)
        install.install_client(system)
    found = {str(path).removeprefix(str(root)) for path in root.rglob("*") if path.is_file()}
    wanted = expected(kdir.release(kernel.build))
    lines = [f"{path} is not installed" for path in sorted(wanted - found)]
    lines += [f"{path} is installed, and not expected" for path in sorted(found - wanted)]
    make(tree.folder(kernel), "uninstall", f"KDIR={kernel.build}", f"DESTDIR={root}", f"PREFIX={PREFIX}")
    lines += [f"{path} is left" for path in sorted(root.rglob("*"))]
    return "\n".join(lines)
