"""Searching files for words: shows how far it has come, and asks before it takes long."""

import asyncio
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from places import inside

from torpor.tools.server import ToolCall, ToolError

MOST_UNASKED = 500
MOST_FILES = 100_000
MOST_SHOWN = 100
LARGEST_FILE = 1_000_000
LONGEST_LINE = 200
TOGETHER = 20
"""Files that are read at a time, between two looks at the progress."""


class Searching:
    """Searches files below one root directory. Of more than `unasked` files a person decides."""

    def __init__(self, root: Path, *, unasked: int = MOST_UNASKED) -> None:
        self._root = root.resolve(strict=True)
        self._unasked = unasked

    async def search_files(
        self,
        call: ToolCall,
        words: Annotated[str, "what to look for, upper and lower case alike"],
        path: Annotated[str, "file or directory, below the root directory"] = ".",
    ) -> str:
        """Find the lines of text files that contain words. If there are many files, a person is asked whether
        all are to be searched. Large and hidden files are left out.
        """
        if not words.strip():
            raise ToolError("there is nothing to look for; give some words")
        place = inside(self._root, path)
        files = await asyncio.to_thread(_files, place)
        if len(files) > self._unasked:
            files = await self._permitted(call, files, path)
        found: list[str] = []
        for start in range(0, len(files), TOGETHER):
            await call.progress(start / len(files), f"{start} of {len(files)} files")
            some = files[start : start + TOGETHER]
            found += await asyncio.to_thread(self._look, some, words.casefold())
            if len(found) >= MOST_SHOWN:
                searched = min(start + TOGETHER, len(files))
                return _shown(found[:MOST_SHOWN], f"the first of them, in {searched} files; search for more")
        return _shown(found, f"in {len(files)} files")

    async def _permitted(self, call: ToolCall, files: list[Path], path: str) -> list[Path]:
        """Ask which of many files to search; without an answer, the newest."""
        chosen = await call.choose(
            f"There are {len(files)} files below {path!r}. Which are to be searched?",
            [f"The {self._unasked} newest", f"All {len(files)}", "None"],
            expires=600.0,
        )
        if chosen.index == 2:
            raise ToolError("a person decided that nothing is searched; search a smaller directory")
        if chosen.index == 1:
            return files
        return await asyncio.to_thread(_newest, files, self._unasked)

    def _look(self, files: list[Path], words: str) -> list[str]:
        return [line for file in files for line in self._lines(file, words)]

    def _lines(self, file: Path, words: str) -> Iterator[str]:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            return
        for number, line in enumerate(text.split("\n"), 1):
            if words in line.casefold():
                yield f"{file.relative_to(self._root)}:{number}: {line.strip()[:LONGEST_LINE]}"


def _files(place: Path) -> list[Path]:
    """All files of a size to be read at a place, in order; links are not followed."""
    if place.is_file():
        return [place]
    found: list[Path] = []
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = (Path(folder) / name for name in sorted(names) if not name.startswith("."))
        found += itertools.islice((file for file in here if _is_read(file)), MOST_FILES + 1 - len(found))
        if len(found) > MOST_FILES:
            raise ToolError(f"there are more than {MOST_FILES} files; search a smaller directory")
    return found


def _is_read(file: Path) -> bool:
    try:
        return file.is_file() and not file.is_symlink() and file.stat().st_size <= LARGEST_FILE
    except OSError:
        return False


def _newest(files: list[Path], most: int) -> list[Path]:
    def changed(file: Path) -> float:
        try:
            return file.stat().st_mtime
        except OSError:
            return 0.0

    return sorted(sorted(files, key=changed, reverse=True)[:most])


def _shown(lines: list[str], where: str) -> str:
    return "\n".join([f"{len(lines)} lines, {where}.", *lines])
