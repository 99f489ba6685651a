# SPDX-License-Identifier: GPL-2.0
"""Installs kOFI for a test kernel below a staging folder, and builds samples/template against it."""

import os
import shutil
import subprocess
from pathlib import Path, PurePath

from . import client, install, kdir, toolchain, tree
from .kernel import Kernel
from .manifest import NAME
from .paths import TREE

PREFIX = PurePath("/usr/local")
TEMPLATES = TREE / "samples/template"


def make(folder: Path, *arguments: str, **variables: str) -> str:
    """Runs make in a folder without the variables of an outer make. Returns its output.

    `variables` are added to the environment. Raises ModuleError if make fails or prints a warning.
    """
    environment = {name: text for name, text in os.environ.items() if name not in toolchain.OUTER_MAKE}
    result = subprocess.run(
        ["make", "-C", str(folder), *arguments],
        env=environment | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode or tree.WARNING.search(result.stdout):
        raise tree.ModuleError(f"make {' '.join(arguments)} in {folder}:\n{result.stdout}")
    return result.stdout


def staging_folder(kernel: Kernel, purpose: str) -> Path:
    """Returns an empty folder for files of one purpose that belong to a kernel."""
    folder = tree.build_folder(kernel, purpose)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def install_into(kernel: Kernel, root: Path) -> None:
    """Runs `make install` of the checkout, without the client, which is compiled elsewhere.

    The compiler is that of the lane's modules: Kbuild compiles every object again if the command changed.
    """
    built = tree.build_folder(kernel)
    compiler, variables = toolchain.caching()
    with tree.locked(built):
        tree.sync(built)
        arguments = ["install", f"KDIR={kernel.build}", f"DESTDIR={root}", f"PREFIX={PREFIX}", "CLIENT=n", *compiler]
        make(built, *arguments, **variables)


def build_templates(kernel: Kernel) -> list[Path]:
    """Builds copies of all templates outside the checkout against an installation. Returns their modules."""
    root = staging_folder(kernel, "installed")
    install_into(kernel, root)
    kofi = Path(f"{root}{PREFIX}/lib/kofi/{kdir.release(kernel.build)}")
    copies = [staging_folder(kernel, f"template-{template.name}") for template in templates()]
    return [build_template(kernel, *each, kofi) for each in zip(templates(), copies)]


def templates() -> list[Path]:
    """Returns the folders of the templates."""
    return sorted(path for path in TEMPLATES.iterdir() if path.is_dir())


def build_template(kernel: Kernel, template: Path, copy: Path, kofi: Path) -> Path:
    """Copies a template and builds the copy with KOFI=`kofi`. Returns its module."""
    shutil.copytree(template, copy, dirs_exist_ok=True)
    make(copy, f"KDIR={kernel.build}", f"KOFI={kofi}")
    return next(copy.glob("*.ko"))


def expected_files(release: str) -> set[str]:
    """Returns the paths of all files that an installation has."""
    lib = PREFIX / "lib/kofi"
    headers = (path.relative_to(TREE) for path in (TREE / "include").rglob("*.h"))
    files = [lib / release / path for path in headers]
    files += [lib / release / name for name in (*install.SOURCE_FILES, *install.BUILT_FILES, NAME)]
    files += [PREFIX / "share" / path for path in install.shared_files(client.build())]
    files += [PREFIX / "include/linux" / header.name for header in install.UAPI]
    files += [PREFIX / "bin/kofi", lib / "client" / NAME]
    modules = {f"/lib/modules/{release}/updates/{name}.ko" for name in ("kofi", "kofi_perf")}
    return {str(path) for path in files} | modules


def check(kernel: Kernel) -> str:
    """Installs twice and uninstalls. Returns a line for each missing, unexpected or remaining file."""
    root = staging_folder(kernel, "staged")
    system = install.System(str(root), PREFIX)
    # The second installation is an update.
    for _ in range(2):
        install_into(kernel, root)
        install.install_client(system)
    found = {str(path).removeprefix(str(root)) for path in root.rglob("*") if path.is_file()}
    expected = expected_files(kdir.release(kernel.build))
    lines = [f"{path} is not installed" for path in sorted(expected - found)]
    lines += [f"{path} is installed, but not expected" for path in sorted(found - expected)]
    make(tree.build_folder(kernel), "uninstall", f"KDIR={kernel.build}", f"DESTDIR={root}", f"PREFIX={PREFIX}")
    lines += [f"{path} remains after `make uninstall`" for path in sorted(root.rglob("*"))]
    return "\n".join(lines)
