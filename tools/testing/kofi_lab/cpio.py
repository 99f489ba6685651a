# SPDX-License-Identifier: GPL-2.0
"""Writes initramfs archives (cpio "newc"), device nodes too, without being root."""

import stat
from pathlib import Path


class Archive:
    """An archive that grows in memory; folders on the way to a file come by themselves."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.names: set[str] = set()

    def _entry(
        self, name: str, mode: int, body: bytes = b"", device: tuple[int, int] = (0, 0)
    ) -> None:
        name = name.strip("/")
        if name in self.names:
            return
        parent = name.rpartition("/")[0]
        if parent:
            self._entry(parent, stat.S_IFDIR | 0o755)
        self.names.add(name)
        self._write(name, mode, body, device)

    def _write(self, name: str, mode: int, body: bytes, device: tuple[int, int]) -> None:
        path = name.encode() + b"\0"
        fields = (len(self.names), mode, 0, 0, 1, 0, len(body), 0, 0, *device, len(path), 0)
        self.data += b"070701" + b"".join(b"%08X" % field for field in fields) + path
        self._pad()
        self.data += body
        self._pad()

    def _pad(self) -> None:
        self.data += b"\0" * (-len(self.data) % 4)

    def folder(self, name: str) -> None:
        """An empty folder."""
        self._entry(name, stat.S_IFDIR | 0o755)

    def link(self, name: str, target: str) -> None:
        """A symbolic link."""
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def node(self, name: str, major: int, minor: int) -> None:
        """A character device."""
        self._entry(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def text(self, name: str, body: str, mode: int = 0o644) -> None:
        """A file with that text."""
        self._entry(name, stat.S_IFREG | mode, body.encode())

    def file(self, name: str, source: Path) -> None:
        """A copy of a file."""
        mode = stat.S_IMODE(source.stat().st_mode)
        self._entry(name, stat.S_IFREG | mode, source.read_bytes())

    def finish(self) -> bytes:
        """The whole archive; archives may follow one another in one initrd."""
        self._write("TRAILER!!!", 0, b"", (0, 0))
        self.data += b"\0" * (-len(self.data) % 512)
        return bytes(self.data)
