"""Waiting for a thread within a bound: for a reply, a question to people, an event; with progress."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from torpor.core.errors import Refused
from torpor.core.messages import Call, Happened, Noted, Requested, Result, Turn, Usage, text_of
from torpor.core.views import PROGRESS
from torpor.mcp.limits import HEARTBEAT
from torpor.mcp.outcomes import ASKING, REPLIED, WORKING, Outcome, listed
from torpor.mcp.tickets import Ticket
from torpor.ports import LiveEvent
from torpor.runtime.following import PAGE
from torpor.runtime.questions import Question
from torpor.runtime.receipts import Receipt
from torpor.runtime.replies import Entry, Reply
from torpor.runtime.threads import Threads

TEXT_EVERY = 1.0
"""Seconds between two tellings of text that is being written."""
SHOWN = 200
"""Characters of a text that progress shows."""

Tell = Callable[[str], Awaitable[None]]
"""Tells a client how far the thread has come."""


class Watch:
    """One bounded wait of a client. Whatever ends it, the thread goes on."""

    def __init__(self, threads: Threads, ticket: Ticket, tell: Tell) -> None:
        self._threads = threads
        self._ticket = ticket
        self._tell = tell
        self._told_at = 0.0
        self._written = ""
        self._asked = asyncio.Event()

    async def end(self, seconds: float, *, known: frozenset[str] | None = None) -> Outcome:
        """Wait for a reply, or for a question to people not among the ``known`` ones; None: all are."""
        asks = self._asks(known) if known is not None else asyncio.sleep(seconds)
        work = (self._reply(), self._follow(), asks, self._beat())
        tasks = [asyncio.create_task(one) for one in work]
        try:
            await asyncio.wait(tasks[:3], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()  # what failed is not passed over
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return await self.now()

    async def now(self) -> Outcome:
        """Where it stands at this moment."""
        reply = await self._there()
        return await self._stands() if reply is None else self._replied(reply)

    def _replied(self, reply: Reply) -> Outcome:
        return Outcome(thread=self._ticket.thread, state=REPLIED, text=reply.text, position=reply.position)

    @property
    def _find(self) -> Callable[[Entry], Reply | None] | None:
        """What to look for among its messages; None: the reply to some words."""
        ticket = self._ticket
        return _of_call if ticket.calls else _end_of_exchange if ticket.after >= 0 else None

    async def _there(self) -> Reply | None:
        """What is waited for, if it is there already."""
        find, ticket = self._find, self._ticket
        if find is None:
            try:
                return await self._threads.reply(ticket.thread, to=self._receipt, timeout=0)
            except (Refused, TimeoutError):
                return None
        after = max(ticket.after, 0)
        while entries := await self._threads.history(ticket.thread, after, PAGE):
            if (reply := next(filter(None, map(find, entries)), None)) is not None:
                return reply
            after = entries[-1].position
        return None

    @property
    def _receipt(self) -> Receipt | None:
        return Receipt(self._ticket.signal, "steer") if self._ticket.signal else None

    async def _reply(self) -> Reply | None:
        """The reply to the words; None if it will not come, since the thread has come to an end."""
        find = self._find
        try:
            if find is not None:
                return await self._next(find)
            return await self._threads.reply(self._ticket.thread, to=self._receipt, timeout=None)
        except Refused:
            return None

    async def _next(self, find: Callable[[Entry], Reply | None]) -> Reply | None:
        """The next result of a call or end of an exchange after a position."""
        thread, position = self._ticket.thread, max(self._ticket.after, 0)
        if await self._has_ended() and (reply := await self._there()) is None:
            return reply
        row = await self._threads.row(thread)
        async for item in self._threads.committed(thread, position):
            if not isinstance(item, Entry):
                continue
            if (reply := find(item)) is not None:
                return reply
            if item.position >= row.length and await self._has_ended():
                return None
        return None

    async def _has_ended(self) -> bool:
        return (await self._threads.row(self._ticket.thread)).state != "open"

    async def _follow(self) -> Reply | None:
        """Tell what happens."""
        async for item in self._threads.committed(self._ticket.thread, self._ticket.since):
            if isinstance(item, Entry):
                await self._committed(item)
            else:
                await self._happening(item)
        return None

    async def _asks(self, known: frozenset[str]) -> None:
        """Return once people are asked something new, at once or (for a descendant) within a heartbeat."""
        while True:
            self._asked.clear()
            questions = await questions_of(self._threads, self._ticket.thread)
            if any(one.id not in known for one in questions):
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), HEARTBEAT)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            await self._tell((await self._threads.explain(self._ticket.thread)).text)

    async def _stands(self) -> Outcome:
        """Where it stands without a reply."""
        row = await self._threads.row(self._ticket.thread)
        told = await self._threads.explain(row.thread)
        asks = listed(await questions_of(self._threads, row.thread))
        state = (ASKING if asks else WORKING) if row.state == "open" else row.state
        return Outcome(thread=row.thread, state=state, text=told.text, asks=asks)

    async def _committed(self, entry: Entry) -> None:
        words = ""
        match entry.message:
            case Noted(note=Requested()):
                self._asked.set()
            case Turn(parts=parts):
                self._written = ""
                calls = [part.name for part in parts if isinstance(part, Call)]
                words = f"calls {', '.join(calls)}" if calls else ""
            case Result(is_error=failed):
                words = "a tool has failed" if failed else "a tool has answered"
            case Happened(name=name, parts=parts):
                words = f"event of {name}: {text_of(parts)}"
        if words:
            await self._tell(_short(words))

    async def _happening(self, event: LiveEvent) -> None:
        if event.kind == "view" and event.name == PROGRESS:
            await self._tell(_short(event.text))
        elif event.kind == "text":
            self._written += event.text
            now = asyncio.get_running_loop().time()
            if now - self._told_at >= TEXT_EVERY:
                self._told_at = now
                await self._tell(_short(f"writes: {self._written[-SHOWN:]}"))


def _end_of_exchange(entry: Entry) -> Reply | None:
    message = entry.message
    if isinstance(message, Turn) and message.end:
        return Reply(text_of(message.parts), message.usage or Usage(), entry.position)
    return None


def _of_call(entry: Entry) -> Reply | None:
    if isinstance(entry.message, Result | Happened):
        return Reply(text_of(entry.message.parts), Usage(), entry.position)
    return None


async def questions_of(threads: Threads, thread: str) -> list[Question]:
    """What people are asked for a thread or one of its descendants."""
    tree = await threads.tree(thread)
    below, found = {thread}, []
    for row in tree:
        if row.thread in below or row.parent in below:
            below.add(row.thread)
            found += await threads.waits(row.thread) if row.waits else []
    return found


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
