"""The people of a soak: they start threads, speak, answer, approve, interrupt and close."""

import asyncio
import random
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec
from soak_check import Checked, Traces, check

from torpor.core.codec import decode_head
from torpor.core.head import Head
from torpor.core.signals import SaidSignal
from torpor.ports import Row
from torpor.wiring import Parts

KINDS = {
    "porter": ("", 0),
    "asker": ("", 0),
    "napper": ("steer", 2),
    "parent": ("", 0),
    "watcher": ("", 0),
    "talker": ("queue", 12),
    "hasty": ("interrupt", 1),
    "unlucky": ("", 0),
    "counter": ("", 0),
}
"""By agent: in which mode, and how often, more is said to each of its threads."""
LOOK_EVERY = 0.7
WORDS = "There is something that I wanted to tell you about. " * 30


class Life(msgspec.Struct):
    """One root thread."""

    thread: str
    agent: str
    mode: str
    texts: int
    """How many more will be said."""
    began: float = msgspec.field(default_factory=time.monotonic)
    closed: bool = False


class Crowd:
    """All people. They speak over HTTP and look into the store."""

    def __init__(self, url: str, token: str, parts: Parts, traces: Traces) -> None:
        self.url = url
        self.parts = parts
        self.alive: dict[str, Life] = {}
        self.found = Checked()
        self.done: Counter[str] = Counter()
        """Roots that came to their end and were closed, by agent."""
        self._headers = {"Authorization": f"Bearer {token}"}
        self._traces = traces
        self._kinds = self._turns()

    def _turns(self) -> Iterator[str]:
        while True:
            yield from random.sample(list(KINDS), len(KINDS))

    async def start_for_ever(self, rate: float, most: int) -> None:
        """Start so many threads a second, while fewer than ``most`` are alive."""
        async with aiohttp.ClientSession(headers=self._headers) as self._session:
            while True:
                await asyncio.sleep(random.expovariate(rate))
                if len(self.alive) < most:
                    await self._start(next(self._kinds))

    async def _start(self, agent: str) -> None:
        mode, texts = KINDS[agent]
        thread = f"soak-{secrets.token_hex(6)}"
        self.alive[thread] = Life(thread, agent, mode, texts)
        order = {"agent": agent, "text": "Do all of it.", "thread": thread, "owner": f"o{hash(thread) % 5}"}
        await self._post("/threads", order, key=thread)

    async def tend_for_ever(self) -> None:
        """Look at every thread again and again, and do what is to be done."""
        async with aiohttp.ClientSession(headers=self._headers) as self._tending:
            while True:
                for life in list(self.alive.values()):
                    await self._tend(life)
                await asyncio.sleep(LOOK_EVERY)

    async def _tend(self, life: Life) -> None:
        row = await self.parts.store.row(life.thread)
        if row is None:
            if time.monotonic() - life.began > 30.0:
                self.found.faults.append(f"{life.agent} {life.thread} is not there")
                del self.alive[life.thread]
            return
        head = decode_head(row.head, row.shape)
        if row.state == "parked":
            await self._post(f"/threads/{life.thread}/nudge")
        elif head.waits:
            await self._answer(head)
        elif row.state == "closed":
            del self.alive[life.thread]
            self.done[life.agent] += 1
        elif life.texts:
            await self._speak(life, row, head)
        elif not life.closed and await self._is_over(row, head):
            await check(self.parts.backend, life.thread, self._traces, self.found)
            life.closed = True
        if life.closed:
            await self._post(f"/threads/{life.thread}/close")

    async def _speak(self, life: Life, row: Row, head: Head) -> None:
        ready = not head.exchange.open if life.agent == "talker" else bool(head.pending)
        if life.agent == "napper" and life.texts == 2:
            ready = head.ordinal >= 2 and not head.exchange.open and not head.pending
        if ready and row.length and not row.owes:
            life.texts -= 1
            said = {"text": f"{life.texts}: {WORDS}", "mode": life.mode}
            await self._post(f"/threads/{life.thread}/messages", said, key=f"{life.texts}")

    async def _answer(self, head: Head) -> None:
        for wait in head.waits.values():
            if random.random() < 0.7:  # others are left for later, or until their time is over
                chosen: Any = random.choice([True, False] if wait.kind == "approval" else [0, 1])
                for _ in range(random.choice([1, 1, 2])):
                    await self._post(f"/waits/{wait.id}", {"value": chosen}, key="")

    async def _is_over(self, row: Row, head: Head) -> bool:
        open_calls = [call for call in head.detached.values() if not call.given_up]
        held = (head.pending, open_calls, head.subscriptions, head.children, head.queued, head.gathered)
        if row.owes or not head.ordinal or head.exchange.open or any(held) or head.compaction is not None:
            return False
        inbox = await self.parts.store.inbox(row.thread)
        return not any(isinstance(signal, SaidSignal) for signal in inbox)

    async def _post(self, path: str, body: Any = None, key: str = "") -> None:
        """Until it is taken or refused: servers are away now and then."""
        headers = {"Idempotency-Key": key} if key else {}
        session = self._session if path == "/threads" else self._tending
        while True:
            with suppress(aiohttp.ClientError, TimeoutError):
                async with session.post(self.url + path, json=body, headers=headers) as answer:
                    said = await answer.read()
                    if answer.status < 500:
                        self._heard(path, answer.status, said)
                        return
            await asyncio.sleep(0.5)

    def _heard(self, path: str, status: int, said: bytes) -> None:
        """A race that was lost is none of ours; anything else that is refused is a fault."""
        if status >= 400 and status not in (404, 409):
            self.found.faults.append(f"{path}: {status} {said[:200]!r}")

    async def stuck(self) -> list[str]:
        """What each thread that is alive waits for."""
        told = []
        for life in self.alive.values():
            explained = await self.parts.threads.explain(life.thread)
            told.append(f"{life.agent} {life.thread} ({life.texts} texts left): {explained.text}")
        return told
