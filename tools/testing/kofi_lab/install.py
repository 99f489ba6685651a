# SPDX-License-Identifier: GPL-2.0
"""Installs the modules, the build files of consumers and the client, and uninstalls them.

Consumers have a folder for each kernel, PREFIX/lib/kofi/RELEASE, with the layout of a built checkout.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePath

from . import client, kdir, toolchain
from .manifest import Manifest
from .output import LabError, print_line
from .paths import TREE

# Only kofi.ko, which consumers need, and kofi_perf.ko, which the client needs.
WITHOUT_TESTS = ("CONFIG_KOFI_SAMPLES=n", "CONFIG_KOFI_BENCH=n", "CONFIG_KOFI_KUNIT_TEST=n")
BUILT_FILES = ("Module.symvers", "kofi.args", "rust/libkofi.rmeta")
SOURCE_FILES = ("kofi.mk",)
UAPI = (PurePath("include/uapi/linux/kofi.h"), PurePath("include/uapi/linux/kofi_perf.h"))
COMPLETIONS = {
    "bash": "bash-completion/completions/kofi",
    "fish": "fish/vendor_completions.d/kofi.fish",
    "zsh": "zsh/site-functions/_kofi",
}
MANUAL = "man/man1/kofi.1"


@dataclass(frozen=True)
class System:
    """The destination of an installation: DESTDIR, which only packages set, and PREFIX."""

    root: str
    prefix: PurePath

    @property
    def lib(self) -> PurePath:
        """The folder that has one folder for each kernel, and one for the client."""
        return self.prefix / "lib/kofi"

    def manifest(self, name: str) -> Manifest:
        """Returns the manifest of a kernel's release, or of `client`."""
        return Manifest(self.root, self.lib / name)


def install(system: System, build: Path, with_client: bool, make_arguments: list[str]) -> int:
    """Builds and installs the modules, the build files of consumers and the client. Returns the exit status."""
    kdir.inspect(build)
    release = kdir.release(build)
    if with_client and not toolchain.cargo():
        raise LabError("cargo, which builds the client, is not installed: install it, or pass CLIENT=n")
    manifest = system.manifest(release)
    modules = PurePath("/lib/modules") / release / "updates"
    try:
        # A folder that is not writable is reported before the build.
        manifest.make_folder(modules)
        manifest.make_folder(system.lib / release)
        if code := install_modules(system, build, make_arguments):
            return code
        for name in ("kofi.ko", "kofi_perf.ko"):
            found = sorted(manifest.resolve(modules).glob(f"{name}*"))
            if not found:
                raise LabError(f"modules_install put no {name} into {manifest.resolve(modules)}")
            for module in found:
                manifest.record(modules / module.name)
        write_consumer_files(manifest, TREE, system.lib / release)
        manifest.commit()
        if with_client:
            install_client(system)
    except PermissionError as error:
        raise LabError(not_writable(error)) from error
    print_line(f"installed for kernel {release}: `modprobe kofi`; consumers build with")
    print_line(f"  KOFI={manifest.resolve(system.lib / release)}")
    return 0


def not_writable(error: PermissionError) -> str:
    """Returns the message for a path that the user may not write."""
    return f"{error.filename} is not writable: run as root, or choose another folder with DESTDIR="


def install_modules(system: System, build: Path, make_arguments: list[str]) -> int:
    """Builds the modules and installs them below /lib/modules. Returns make's exit status."""
    make_arguments = [*WITHOUT_TESTS, *make_arguments]
    if code := kdir.make(build, "modules", make_arguments):
        return code
    destination = [f"INSTALL_MOD_PATH={system.root}", "INSTALL_MOD_DIR=updates"]
    # A package runs depmod where it is installed.
    destination += ["DEPMOD=true"] if system.root else []
    return kdir.make(build, "modules_install", [*make_arguments, *destination])


def consumer_files(built: Path) -> list[PurePath]:
    """Returns the files that a consumer's build needs, as paths below a built checkout or an installed folder."""
    if missing := [name for name in BUILT_FILES if not (built / name).exists()]:
        raise LabError(f"{built} has no {missing[0]}: kOFI was not built there")
    headers = sorted(path.relative_to(built) for path in (built / "include").rglob("*.h"))
    return [*headers, *map(PurePath, SOURCE_FILES + BUILT_FILES)]


def write_consumer_files(manifest: Manifest, built: Path, folder: PurePath) -> None:
    """Copies the files that a consumer's build needs from a built checkout into a folder."""
    for path in consumer_files(built):
        manifest.write(folder / path, (built / path).read_bytes())


def install_client(system: System) -> None:
    """Builds and installs the client, its manual page, its shell completions and the headers of the ioctl ABI."""
    program = client.build()
    manifest = system.manifest("client")
    manifest.write(system.prefix / "bin/kofi", program.read_bytes(), 0o755)
    for header in UAPI:
        manifest.write(system.prefix / "include/linux" / header.name, (TREE / header).read_bytes())
    share = system.prefix / "share"
    for path, content in shared_files(program).items():
        manifest.write(share / path, content)
    manifest.commit()


def shared_files(program: Path) -> dict[str, bytes]:
    """Returns the client's shell completions and manual page, by path below PREFIX/share.

    The client prints them. A client without a manual page is accepted.
    """
    verbs = {path: ("completions", shell) for shell, path in COMPLETIONS.items()}
    verbs[MANUAL] = ("man",)
    results = {
        path: subprocess.run([program, *arguments], capture_output=True, check=path != MANUAL)
        for path, arguments in verbs.items()
    }
    return {path: result.stdout for path, result in results.items() if result.returncode == 0}


def uninstall(system: System, release: str) -> None:
    """Deletes the installed files of a kernel, and the client if this was the last kernel."""
    manifest = system.manifest(release)
    try:
        if not manifest.remove():
            raise LabError(f"nothing is installed for kernel {release} in {manifest.resolve(system.lib)}")
        lib = manifest.resolve(system.lib)
        if lib.is_dir() and {path.name for path in lib.iterdir()} <= {"client"}:
            system.manifest("client").remove()
            # Folders that both used are empty only now.
            manifest.remove()
    except PermissionError as error:
        raise LabError(not_writable(error)) from error
    if not system.root:
        run_depmod(release)
    print_line(f"removed the files of kernel {release}")


def run_depmod(release: str) -> None:
    """Updates modprobe's database of a kernel after the modules are deleted, if that kernel has one."""
    depmod = shutil.which("depmod", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if depmod and Path(f"/lib/modules/{release}/modules.dep").exists():
        subprocess.run([depmod, release], check=True)


def make_consumer_folder(folder: Path) -> None:
    """Copies the build files of consumers into a folder, for installers such as dkms."""
    manifest = Manifest("", folder)
    write_consumer_files(manifest, TREE, folder)
    manifest.commit()


def link_consumer_folder(link: Path, target: Path | None) -> None:
    """Makes `link` a symbolic link to a folder of consumers' build files, or removes the link without a target.

    Anything but a symbolic link stays.
    """
    if link.is_symlink():
        link.unlink()
    if target:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    elif link.parent.is_dir() and not any(link.parent.iterdir()):
        link.parent.rmdir()
