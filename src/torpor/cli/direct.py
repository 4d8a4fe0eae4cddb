"""The desk that works on the store itself: posts, rings and reads; a worker elsewhere does the rest."""

import getpass
from collections.abc import AsyncIterator
from typing import Unpack

from torpor.core.errors import Refused
from torpor.core.messages import By
from torpor.core.record import SliceRecord
from torpor.ports import Asked, LiveEvent
from torpor.runtime.given import filters
from torpor.runtime.questions import UNKNOWN, Question, Settled, Value
from torpor.runtime.replies import Entry
from torpor.runtime.threads import Receipt, Threads
from torpor.web.shapes import Found, NewThread, Saying, Started, ThreadView, look_up, view

ALL = 1_000_000
"""More slices than a thread has."""


class Direct:
    """See ``Desk``."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._by = By("person", _user())

    async def start(self, wanted: NewThread) -> Started:
        begun = await self._threads.start(
            wanted.agent,
            wanted.to_parts(),
            thread=wanted.thread,
            owner=wanted.owner,
            user_id=wanted.user_id,
            context=wanted.context_text(),
            tier=wanted.tier,
            by=self._by,
            known_only=bool(self._threads.roster.names),
        )
        return view(begun.row, Started, receipt=begun.receipt)

    async def say(self, thread: str, saying: Saying, key: str = "") -> Receipt:
        return await self._threads.say(
            thread, saying.to_parts(), mode=saying.mode, by=self._by, key=key, tier=saying.tier
        )

    async def waits(self, thread: str) -> list[Question]:
        return await self._threads.waits(thread)

    async def answer(self, wait: str, value: Value, comment: str = "") -> Settled:
        settled = await self._threads.answer(wait, value, by=self._by, comment=comment)
        if settled.outcome == UNKNOWN:
            raise Refused(f"There is no wait {wait!a:.130}, and there never was.")
        return settled

    async def find(self, *, limit: int, **asked: Unpack[Asked]) -> list[ThreadView]:
        rows = await self._threads.store.threads(**filters(**asked), limit=limit)
        return [view(row, ThreadView) for row in rows]

    async def fork(self, thread: str, at: int | None, key: str = "") -> Started:
        begun = await self._threads.fork(thread, at, by=self._by, key=key)
        return view(begun.row, Started, receipt=None)

    async def get(self, thread: str) -> Found:
        return await look_up(self._threads, thread)

    async def entries(self, thread: str, after: int = 0) -> list[Entry]:
        return await self._threads.history(thread, after)

    async def records(self, thread: str) -> list[SliceRecord]:
        return await self._threads.records(thread, limit=ALL)

    async def command(self, thread: str, word: str) -> None:
        match word:
            case "stop":
                await self._threads.stop(thread, self._by)
            case "nudge":
                await self._threads.nudge(thread, self._by)
            case "compact":
                await self._threads.compact(thread, self._by)
            case _:
                await self._threads.close(thread, self._by)

    def watch(self, thread: str, after: int) -> AsyncIterator[Entry | LiveEvent]:
        return self._threads.committed(thread, after)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
