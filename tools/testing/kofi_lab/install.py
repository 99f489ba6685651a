# SPDX-License-Identifier: GPL-2.0
"""Puts kOFI where modprobe, the builds of consumers and people look for it, and takes it away again.

Consumers have a folder for each kernel, PREFIX/lib/kofi/RELEASE, that looks as a built checkout does.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePath

from . import client, kdir, toolchain
from .output import LabError, print_line
from .paths import TREE
from .receipt import Receipt

# Only kofi.ko, which consumers need, and kofi_perf.ko, which the client needs.
KOFI_ALONE = ("CONFIG_KOFI_SAMPLES=n", "CONFIG_KOFI_BENCH=n", "CONFIG_KOFI_KUNIT_TEST=n")
MADE = ("Module.symvers", "kofi.args", "rust/libkofi.rmeta")
GIVEN = ("kofi.mk",)
UAPI = (PurePath("include/uapi/linux/kofi.h"), PurePath("include/uapi/linux/kofi_perf.h"))
COMPLETIONS = {
    "bash": "bash-completion/completions/kofi",
    "fish": "fish/vendor_completions.d/kofi.fish",
    "zsh": "zsh/site-functions/_kofi",
}
MANUAL = "man/man1/kofi.1"


@dataclass(frozen=True)
class System:
    """Where things go: below `root`, which only packages have, and below `prefix`."""

    root: str
    prefix: PurePath

    @property
    def homes(self) -> PurePath:
        """What has a folder for each kernel, and one for the client."""
        return self.prefix / "lib/kofi"

    def receipt(self, name: str) -> Receipt:
        """What there is for a kernel, or of the client."""
        return Receipt(self.root, self.homes / name)


def install(system: System, build: Path, with_client: bool, more: list[str]) -> int:
    """Builds what lacks, and puts everything in its place."""
    kdir.inspect(build)
    release = kdir.release(build)
    if with_client and not toolchain.cargo():
        raise LabError(
            "there is no cargo, which builds the client: install it, or leave the client out"
            " with CLIENT=n"
        )
    receipt = system.receipt(release)
    modules = PurePath("/lib/modules") / release / "updates"
    try:
        # What cannot be written is said before anything is built.
        receipt.folder(modules)
        receipt.folder(system.homes / release)
        if code := make_modules(system, build, more):
            return code
        for name in ("kofi.ko", "kofi_perf.ko"):
            found = sorted(receipt.at(modules).glob(f"{name}*"))
            if not found:
                raise LabError(f"modules_install put no {name} into {receipt.at(modules)}")
            for module in found:
                receipt.note(modules / module.name)
        put_for_consumers(receipt, TREE, system.homes / release)
        receipt.finish()
        if with_client:
            install_client(system)
    except PermissionError as error:
        raise LabError(refusal(error)) from error
    print_line(f"installed for kernel {release}: `modprobe kofi`; consumers build with")
    print_line(f"  KOFI={receipt.at(system.homes / release)}")
    return 0


def refusal(error: PermissionError) -> str:
    """What to do where nothing may be written."""
    return f"{error.filename} cannot be written: be root, or name another place with DESTDIR="


def make_modules(system: System, build: Path, more: list[str]) -> int:
    """The modules, in the kernel's own folder."""
    more = [*KOFI_ALONE, *more]
    if code := kdir.make(build, "modules", more):
        return code
    where = [f"INSTALL_MOD_PATH={system.root}", "INSTALL_MOD_DIR=updates"]
    # A package's files are found by modprobe where the package is installed.
    where += ["DEPMOD=true"] if system.root else []
    return kdir.make(build, "modules_install", [*more, *where])


def for_consumers(built: Path) -> list[PurePath]:
    """What a consumer's build needs, as paths below a built checkout, or a folder that is like one."""
    if lacking := [name for name in MADE if not (built / name).exists()]:
        raise LabError(f"{built} has no {lacking[0]}: kOFI was not built there")
    headers = sorted(path.relative_to(built) for path in (built / "include").rglob("*.h"))
    return [*headers, *map(PurePath, GIVEN + MADE)]


def put_for_consumers(receipt: Receipt, built: Path, home: PurePath) -> None:
    """All of that into a folder."""
    for path in for_consumers(built):
        receipt.put(home / path, (built / path).read_bytes())


def install_client(system: System) -> None:
    """The program, what it says of itself, and the headers for programs that do what it does."""
    program = client.build()
    receipt = system.receipt("client")
    receipt.put(system.prefix / "bin/kofi", program.read_bytes(), 0o755)
    for header in UAPI:
        receipt.put(system.prefix / "include/linux" / header.name, (TREE / header).read_bytes())
    share = system.prefix / "share"
    for path, content in said_by(program).items():
        receipt.put(share / path, content)
    receipt.finish()


def said_by(program: Path) -> dict[str, bytes]:
    """What the client writes about itself, and where that goes: a client may have no manual page."""
    verbs = {path: ("completions", shell) for shell, path in COMPLETIONS.items()}
    verbs[MANUAL] = ("man",)
    results = {
        path: subprocess.run([program, *words], capture_output=True, check=path != MANUAL)
        for path, words in verbs.items()
    }
    return {path: result.stdout for path, result in results.items() if result.returncode == 0}


def uninstall(system: System, release: str) -> None:
    """Removes what was installed for a kernel, and the client with the last one."""
    receipt = system.receipt(release)
    try:
        if not receipt.remove():
            raise LabError(f"nothing is installed for kernel {release} in {receipt.at(system.homes)}")
        homes = receipt.at(system.homes)
        if homes.is_dir() and {path.name for path in homes.iterdir()} <= {"client"}:
            system.receipt("client").remove()
            # Folders that they had in common.
            receipt.remove()
    except PermissionError as error:
        raise LabError(refusal(error)) from error
    if not system.root:
        forget_modules(release)
    print_line(f"removed what was installed for kernel {release}")


def forget_modules(release: str) -> None:
    """Has modprobe know that there is no kofi any more."""
    depmod = shutil.which("depmod", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if depmod and Path(f"/lib/modules/{release}/modules.dep").exists():
        subprocess.run([depmod, release], check=True)


def make_consumer_folder(home: Path) -> None:
    """A consumers' folder of its own, for those who install by other means."""
    receipt = Receipt("", home)
    put_for_consumers(receipt, TREE, home)
    receipt.finish()


def link_consumer_folder(home: Path, kept: Path | None) -> None:
    """Has consumers find such a folder, or nothing; what is no link is not ours to change."""
    if home.is_symlink():
        home.unlink()
    if kept:
        home.parent.mkdir(parents=True, exist_ok=True)
        home.symlink_to(kept)
    elif home.parent.is_dir() and not any(home.parent.iterdir()):
        home.parent.rmdir()
