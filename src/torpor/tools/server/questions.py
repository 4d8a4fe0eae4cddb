"""Waits of tools for people: who is asked, what came of it, and whom that wakes."""

import asyncio
import time
from collections.abc import Callable

from torpor.tools.server.asked import Question, Standing
from torpor.tools.server.content import ToolError
from torpor.tools.server.outbox import Outbox


class Questions:
    """What the calls at work ask people. The questions are kept in the outbox, their waits are here."""

    def __init__(self, outbox: Outbox, ring: Callable[[], None]) -> None:
        self._outbox = outbox
        self._ring = ring
        self._waits: dict[str, tuple[int, asyncio.Event]] = {}

    async def ask(self, seq: int, question: Question) -> Standing:
        """Ask, and wait until it is answered or its time is over. ToolError if there is no answer to come."""
        asked = await self._outbox.ask(seq, question)
        if asked is None:
            raise ToolError("cancelled")
        self._ring()
        changed = asyncio.Event()
        self._waits[asked.token] = seq, changed
        try:
            return _usable(await self._until_settled(asked.token, changed))
        finally:
            del self._waits[asked.token]

    async def answer(self, token: str, ident: str, selected: object) -> None:
        """Take what a person chose. Without effect if nothing is open there, or it is settled."""
        if await self._outbox.answer(token, ident, selected):
            self._wake(token)

    async def authorized(self, token: str, problem: str) -> bool:
        """Let a call go on that waited for authorization, or fail with a problem; False if none waits."""
        settled = await self._outbox.authorized(token, problem)
        self._wake(token)
        return settled

    def call_of(self, token: str) -> int | None:
        """The number of the call that waits for the question with this token."""
        found = self._waits.get(token)
        return found[0] if found is not None else None

    def token_of(self, seq: int) -> str:
        """The token of what a call waits for; empty if it waits for nothing."""
        return next((token for token, (waiting, _) in self._waits.items() if waiting == seq), "")

    def look_again(self) -> None:
        """Have all waits look at their questions: some may have been settled by the outbox."""
        for _, changed in self._waits.values():
            changed.set()

    def _wake(self, token: str) -> None:
        if token in self._waits:
            self._waits[token][1].set()

    async def _until_settled(self, token: str, changed: asyncio.Event) -> Standing:
        while True:
            changed.clear()
            asked = await self._outbox.standing(token)
            if asked is None:
                raise ToolError("cancelled")
            if asked.state != "open":
                return asked
            try:
                async with asyncio.timeout(max(asked.expires_at - time.time(), 0.0)):
                    await changed.wait()
            except TimeoutError:
                await self._outbox.expire_question(token)


def _usable(asked: Standing) -> Standing:
    if asked.state == "failed":
        raise ToolError(asked.problem or "cancelled")
    return asked
