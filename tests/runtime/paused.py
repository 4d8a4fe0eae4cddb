"""A model whose stream stops before a chosen chunk, until it is let go or cut."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from torpor.core.chunks import AnyChunk
from torpor.core.request import Attempt, Request
from torpor.models import ScriptedModel
from torpor.models.scripted import Reply


class Paused:
    """Follows a script in small pieces; one completion waits before piece ``at``, or at its end."""

    def __init__(self, script: Sequence[Reply], at: int, *, ordinal: int = 0) -> None:
        self.name = "scripted:paused"
        self.at = at
        self.ordinal = ordinal
        """Which completion waits."""
        self.waits = asyncio.Event()
        """The stream has come to the point."""
        self.go = asyncio.Event()
        self.chunks = 0
        """Pieces of the first completion that were given."""
        self._model = ScriptedModel(script, chunk=3)

    @property
    def asked(self) -> list[Request]:
        return list(self._model.requests)

    async def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        pauses = attempt.ordinal == self.ordinal and not self.waits.is_set()
        chunks = self._model.stream(request, attempt)
        async for chunk in chunks:
            if pauses and self.chunks == self.at:
                await self._pause()
            yield chunk
            self.chunks += pauses
        if pauses and self.chunks == self.at:
            await self._pause()

    async def _pause(self) -> None:
        self.waits.set()
        await self.go.wait()


async def count(script: Sequence[Reply]) -> int:
    """How many pieces the first reply of a script has."""
    model = ScriptedModel(script, chunk=3)
    request = Request("a", "m", "", (), ())
    return len([chunk async for chunk in model.stream(request, Attempt("t", 0))])
