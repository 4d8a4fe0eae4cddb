"""Small disks that are filled to the last byte and made room on, or that nobody may write."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHUNKS = (1 << 20, 1 << 16, 1 << 12, 1)


class Disk:
    """A mounted disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Use all room there is, but so many bytes."""
        found = os.statvfs(self.path)
        room = max(0, found.f_bavail * found.f_frsize - leave)
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in CHUNKS:
                try:
                    while room >= size:
                        room -= ballast.write(bytes(size))
                except OSError:
                    continue

    def free(self) -> None:
        """Give back what was used up."""
        self._ballast.unlink(missing_ok=True)

    def remount(self, how: str) -> None:
        """``ro``: nothing can be written from now on; ``rw``: it can again."""
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.path)], check=True)


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Disk]:
    """A disk in memory; skips the test, with the reason, where this machine lets nobody mount one."""
    place.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    mounted = subprocess.run(words, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
