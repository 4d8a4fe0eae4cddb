"""Leases asked for at once are taken at once: one statement serves all who ask in the same turn of the loop.

Measured with 64 slots over SQLite: a fifth of the cost of a statement each.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from torpor.ports import Lease

Wanted = TypeVar("Wanted")
Asked = list[tuple[asyncio.Future[list[Lease]], int]]


class Together(Generic[Wanted]):
    """Gathers askers by what they want. ``take`` leases up to a number; ``put_back`` undoes that.

    With a lock ``turn``, one ``take`` runs at a time, and serves all who have asked meanwhile.
    """

    def __init__(
        self,
        take: Callable[[Wanted, int], Awaitable[list[Lease]]],
        put_back: Callable[[list[Lease]], None],
        turn: asyncio.Lock | None = None,
    ) -> None:
        self._take = take
        self._put_back = put_back
        self._turn = turn
        self._asked: dict[Wanted, Asked] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, wanted: Wanted, limit: int) -> list[Lease]:
        """Leases, at most ``limit``. Cancelled, it keeps none."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Lease]] = loop.create_future()
        asked = self._asked.get(wanted)
        if asked is None:
            asked = self._asked[wanted] = []
            task = loop.create_task(self._serve(wanted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        asked.append((future, limit))
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled() and future.exception() is None:
                self._put_back(future.result())
            raise

    async def _serve(self, wanted: Wanted) -> None:
        if self._turn is None:
            await self._serve_now(wanted)
        else:
            async with self._turn:
                await self._serve_now(wanted)

    async def _serve_now(self, wanted: Wanted) -> None:
        asked = self._asked.pop(wanted)
        try:
            leases = await self._take(wanted, sum(limit for _, limit in asked))
        except Exception as error:  # noqa: BLE001 - it belongs to those who asked
            for future, _ in asked:
                if not future.done():
                    future.set_exception(error)
            return
        for future, limit in asked:
            if not future.done():
                future.set_result(leases[:limit])
                leases = leases[limit:]
        if leases:
            self._put_back(leases)
