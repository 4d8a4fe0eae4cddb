"""One attempt at a time, across processes, at what must not be done twice at once.

The store can only keep the first value of a name, so attempts are numbered: whoever writes a number first
holds it. One that nobody ends for ``HELD_SECONDS`` was lost with its process. Each watcher measures that time
for itself; the clocks of two machines are never compared.
"""

import secrets
import time
from collections.abc import Callable

import msgspec

from torpor.ports import Side

SPACE = "mcp-attempts"
HELD_SECONDS = 60.0
"""After which an attempt that nobody has ended counts as lost; far more than a request may take."""
WATCHED = 10_000


class Count(msgspec.Struct, frozen=True):
    """Which number comes next, and how many earlier attempts may have had an effect."""

    next: int = 0
    lost: int = 0


class Attempt(msgspec.Struct, frozen=True):
    """One that this caller holds."""

    name: str
    count: Count


class Attempts:
    """Attempts by name. ``passed`` tells seconds that pass, from any beginning."""

    def __init__(self, side: Side, passed: Callable[[], float] = time.monotonic) -> None:
        self._side = side
        self._passed = passed
        self._watched: dict[str, float] = {}

    async def take(self, name: str) -> Attempt | None:
        """An attempt; None while somebody else is at it."""
        kept = await self._side.get(SPACE, name)
        count = msgspec.json.decode(kept, type=Count) if kept else Count()
        numbered = f"{name}/{count.next}"
        ours = secrets.token_bytes(16)
        if await self._side.put_new(SPACE, numbered, ours) == ours:
            self._watched.pop(numbered, None)
            return Attempt(name, count)
        if not self._has_hung(numbered):
            return None
        await self.end(Attempt(name, count), lost=True)
        return await self.take(name)

    async def end(self, attempt: Attempt, *, lost: bool) -> None:
        """Let others try. ``lost``: this one may have had an effect that nobody knows of."""
        count = attempt.count
        after = Count(count.next + 1, count.lost + lost)
        await self._side.put(SPACE, attempt.name, msgspec.json.encode(after))

    def _has_hung(self, numbered: str) -> bool:
        now = self._passed()
        if len(self._watched) > WATCHED:
            self._watched.clear()
        return now - self._watched.setdefault(numbered, now) >= HELD_SECONDS
