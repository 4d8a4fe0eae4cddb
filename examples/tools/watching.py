"""Watching files by comparing snapshots: works on every file system, and sees what changed meanwhile."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Annotated, Any

from places import inside

from torpor.tools.server import ToolCall, ToolError

MOST_FILES = 20_000
MOST_NAMED = 100

Snapshot = dict[str, list[int]]


class Watching:
    """Watches files below one root directory."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve(strict=True)

    async def watch_path(
        self,
        call: ToolCall,
        path: Annotated[str, "file or directory, below the root directory"],
        interval: Annotated[float, "seconds between two looks"] = 1.0,
    ) -> None:
        """Subscribe to changes of a file, or of all files in a directory. Events name what was created,
        changed and deleted, as JSON. Changes that undo each other between two looks are not seen.
        """
        # What is watched may be gone when a subscription is taken up again: that is a change like others.
        place = inside(self._root, path, must_exist=not call.subscribed)
        before: Snapshot = call.memory or {}
        if not call.subscribed:
            before = await asyncio.to_thread(_look, self._root, place)
            await call.subscribe(f"Watching {path!r} ({len(before)} files).", remember=before)
        while True:
            now = await asyncio.to_thread(_look, self._root, place)
            changes = _compare(before, now)
            if changes:
                await call.event(changes, remember=now)
                before = now
            await asyncio.sleep(max(interval, 0.05))


def _look(root: Path, place: Path) -> Snapshot:
    """Take modification time (ns), size and inode of every regular file; links are not followed."""
    found: Snapshot = {}
    waiting = [place]
    while waiting:
        at = waiting.pop()
        try:
            status = at.lstat()
            if stat.S_ISDIR(status.st_mode):
                waiting.extend(Path(entry) for entry in os.scandir(at))
            elif stat.S_ISREG(status.st_mode):
                found[str(at.relative_to(root))] = [status.st_mtime_ns, status.st_size, status.st_ino]
        except OSError:
            continue
        if len(found) > MOST_FILES:
            raise ToolError(f"there are more than {MOST_FILES} files; watch a smaller directory")
    return found


def _compare(before: Snapshot, now: Snapshot) -> dict[str, Any]:
    changes = {
        "created": sorted(now.keys() - before.keys()),
        "changed": sorted(name for name in now.keys() & before.keys() if now[name] != before[name]),
        "deleted": sorted(before.keys() - now.keys()),
    }
    told: dict[str, Any] = {kind: names[:MOST_NAMED] for kind, names in changes.items() if names}
    unnamed = sum(max(len(names) - MOST_NAMED, 0) for names in changes.values())
    if unnamed:
        told["unnamed"] = unnamed
    return told
