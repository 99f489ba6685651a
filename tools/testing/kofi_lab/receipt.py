# SPDX-License-Identifier: GPL-2.0
"""What was put into a system: every file, and every folder that was not there before."""

from pathlib import Path, PurePath

NAME = "installed"


class Receipt:
    """A list of paths in a file of its own, which is the last of them; a folder ends with a slash.

    `root` stands in front of every path, for packages, but not in the list.
    """

    def __init__(self, root: str, home: PurePath, name: str = NAME) -> None:
        self.root = root.rstrip("/")
        self.path = home / name
        self.before = self.read()
        self.files: list[str] = []
        self.folders = [entry for entry in self.before if entry.endswith("/")]

    def at(self, path: PurePath | str) -> Path:
        """Where that is on this machine."""
        return Path(f"{self.root}{path}")

    def read(self) -> list[str]:
        """What the last one put there; nothing if there was none."""
        place = self.at(self.path)
        return place.read_text(encoding="utf-8").splitlines() if place.exists() else []

    def folder(self, path: PurePath) -> None:
        """Makes a folder, and those that it stands in."""
        if self.at(path).is_dir():
            return
        if path.parent != path:
            self.folder(path.parent)
            self.folders.append(f"{path}/")
        self.at(path).mkdir(parents=True)

    def put(self, path: PurePath, content: bytes, mode: int = 0o644) -> None:
        """Has a file there. It is another one where it changes: the old one may be in use, or shared."""
        self.folder(path.parent)
        self.note(path)
        place = self.at(path)
        if place.is_file() and place.read_bytes() == content:
            place.chmod(mode)
            return
        part = place.with_name(f".{place.name}.part")
        part.write_bytes(content)
        part.chmod(mode)
        part.rename(place)

    def note(self, path: PurePath) -> None:
        """A file that somebody else wrote for us."""
        self.files.append(str(path))

    def finish(self) -> None:
        """Removes what only the last one had, and writes the list."""
        self.folder(self.path.parent)
        for entry in set(self.before) - {*self.files, *self.folders, str(self.path)}:
            self.at(entry).unlink(missing_ok=True)
        entries = [*self.folders, *self.files, str(self.path)]
        self.put(self.path, "".join(f"{entry}\n" for entry in entries).encode())

    def remove(self) -> bool:
        """Removes all of it, but folders only where nothing else is in them; whether there was any."""
        for entry in (entry for entry in self.before if not entry.endswith("/")):
            self.at(entry).unlink(missing_ok=True)
        for entry in sorted((entry for entry in self.before if entry.endswith("/")), reverse=True):
            if (place := self.at(entry)).is_dir() and not any(place.iterdir()):
                place.rmdir()
        return bool(self.before)
