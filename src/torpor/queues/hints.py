"""Word from other processes over PostgreSQL's LISTEN: a hint, beside looks at the database.

It needs a session of its own, which may die without a word, and a proxy that hands out sessions by the
transaction swallows what is told. So this listener knocks at its own door now and then: only while it hears
that may looks be seldom.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import psycopg

from torpor.core.errors import TorporError

log = logging.getLogger("torpor.postgres")

KNOCK_EVERY = 60.0
"""Seconds between two knocks."""
HEARS_WITHIN = 5.0
"""Seconds in which a knock is heard, or there is nothing to be heard."""
AGAIN = (1.0, 60.0)
"""Seconds after which a session that was lost is replaced, at first and at most."""
KNOCK = "knock "


class Hints:
    """Listens on one channel from ``start`` to ``close``.

    ``told`` gets each word; ``lost`` is called where some may have been missed.
    """

    def __init__(
        self,
        conninfo: str,
        listen: str,
        knock: Callable[[str], Coroutine[Any, Any, None]],
        told: Callable[[str], None],
        lost: Callable[[], None],
    ) -> None:
        self._conninfo = conninfo
        self._listen = listen
        self._knock = knock
        self._told = told
        self._lost = lost
        self._task: asyncio.Task[None] | None = None
        self._word = ""
        self._heard = asyncio.Event()

    @property
    def works(self) -> bool:
        """What others tell is heard here, as far as is known."""
        return self._heard.is_set()

    def start(self) -> None:
        """Begin to listen, if that has not begun."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._always(), name="torpor-hints")

    async def close(self) -> None:
        """Listen no more. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _always(self) -> None:
        pause = AGAIN[0]
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True) as session:
                    await session.execute(self._listen.encode())
                    await self._hear(session)
            except (psycopg.Error, TorporError, OSError) as error:
                log.debug("Nothing is heard from other processes: %s", error)
            pause = AGAIN[0] if self.works else min(2 * pause, AGAIN[1])
            self._deaf()
            await asyncio.sleep(pause)

    async def _hear(self, session: "psycopg.AsyncConnection[tuple[object, ...]]") -> None:
        """Take what is told; returns if a knock was not heard."""
        while True:
            self._word, heard = KNOCK + secrets.token_urlsafe(9), self.works
            self._heard.clear()
            knocking = asyncio.create_task(self._knock(self._word))
            try:
                async for told in session.notifies(timeout=HEARS_WITHIN):
                    self._take(told.payload, heard)
                await knocking
            finally:
                knocking.cancel()
            if not self.works:
                return
            async for told in session.notifies(timeout=KNOCK_EVERY):
                self._take(told.payload, heard)

    def _take(self, word: str, heard: bool) -> None:
        if word == self._word:
            self._heard.set()
            if not heard:
                self._lost()  # what was told before this is not known
        elif not word.startswith(KNOCK):
            self._told(word)

    def _deaf(self) -> None:
        self._heard.clear()
        self._lost()


class PostgresWire:
    """Carries words between processes, beside the queue's: see ``torpor.runtime.sharing``."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._sql: dict[str, str] = database.statements(__package__, "postgres.sql")
        self._hints: Hints | None = None

    def start(self, told: Callable[[str], None]) -> None:
        """Begin to listen, if that has not begun."""
        if self._hints is None:
            conninfo = self._database.place.conninfo
            self._hints = Hints(conninfo, self._sql["listen_live"], self._knock, told, lambda: None)
            self._hints.start()

    async def tell(self, words: Sequence[str]) -> None:
        """Tell all who listen, in order."""
        if words:
            await self._database.ask(self._sql["tell"], {"words": list(words)}, once=True)

    async def close(self) -> None:
        """Listen no more. Idempotent."""
        if self._hints is not None:
            await self._hints.close()

    async def _knock(self, word: str) -> None:
        await self.tell([word])
