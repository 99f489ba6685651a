# SPDX-License-Identifier: GPL-2.0
"""Records which files and folders an installation created, so that an update or a removal can delete them."""

from pathlib import Path, PurePath

NAME = "installed"


class Manifest:
    """A text file with the paths of an installation: one per line, the manifest last, folders with a final slash.

    `root` (DESTDIR of a package) precedes every path on this machine, but is not part of the listed paths.
    """

    def __init__(self, root: str, folder: PurePath, name: str = NAME) -> None:
        self.root = root.rstrip("/")
        self.path = folder / name
        self.previous = self.read()
        self.files: list[str] = []
        self.folders = [entry for entry in self.previous if entry.endswith("/")]

    def resolve(self, path: PurePath | str) -> Path:
        """Returns the path on this machine, below `root`."""
        return Path(f"{self.root}{path}")

    def read(self) -> list[str]:
        """Returns the entries of the manifest on disk; an empty list if there is none."""
        path = self.resolve(self.path)
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def make_folder(self, path: PurePath) -> None:
        """Creates a folder and its missing parents, and records those that it created."""
        if self.resolve(path).is_dir():
            return
        if path.parent != path:
            self.make_folder(path.parent)
            self.folders.append(f"{path}/")
        self.resolve(path).mkdir(parents=True)

    def write(self, path: PurePath, content: bytes, mode: int = 0o644) -> None:
        """Writes a file and records it.

        A changed file is replaced by a new one: the old inode may be in use or have other links.
        """
        self.make_folder(path.parent)
        self.record(path)
        target = self.resolve(path)
        if target.is_file() and target.read_bytes() == content:
            target.chmod(mode)
            return
        part = target.with_name(f".{target.name}.part")
        part.write_bytes(content)
        part.chmod(mode)
        part.rename(target)

    def record(self, path: PurePath) -> None:
        """Records a file that another program wrote."""
        self.files.append(str(path))

    def commit(self) -> None:
        """Deletes files of the previous manifest that were not written again, and writes the new manifest."""
        self.make_folder(self.path.parent)
        for entry in set(self.previous) - {*self.files, *self.folders, str(self.path)}:
            self.resolve(entry).unlink(missing_ok=True)
        entries = [*self.folders, *self.files, str(self.path)]
        self.write(self.path, "".join(f"{entry}\n" for entry in entries).encode())

    def remove(self) -> bool:
        """Deletes all listed files, and those listed folders that are empty. Returns whether a manifest existed."""
        for entry in (entry for entry in self.previous if not entry.endswith("/")):
            self.resolve(entry).unlink(missing_ok=True)
        for entry in sorted((entry for entry in self.previous if entry.endswith("/")), reverse=True):
            if (folder := self.resolve(entry)).is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        return bool(self.previous)
