"""Live events that other processes see: those of threads that somebody elsewhere watches are passed on.

Whoever watches says so, and again now and then; what streams meanwhile is gathered for a moment and told in
bounded words. All of it may be lost: committed messages are read from the store.
"""

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Protocol, cast

import msgspec

from torpor.core.chunks import AnyChunk
from torpor.core.errors import TorporError
from torpor.ports import LiveEvent
from torpor.runtime.live import LocalLive, event_of

log = logging.getLogger("torpor.live")

GATHERED = 0.08
"""Seconds for which text is gathered into one word."""
RENEWED = 10.0
"""Seconds after which a watcher says again that it watches."""
WANTED = 3 * RENEWED
"""Seconds for which it is believed."""
LONGEST = 7_900
"""Bytes of a word."""
PIECE = 1_200
"""Characters of text in a word: in JSON a character takes six bytes at most."""
MOST = 200
"""Words kept of one thread until they are told; the oldest are dropped."""
THREADS = 250
"""Threads named in one word."""


class Wire(Protocol):
    """Carries words to all processes of a store, the own one included, or loses them."""

    def start(self, told: Callable[[str], None]) -> None:
        """Begin to listen, if that has not begun."""

    async def tell(self, words: Sequence[str]) -> None:
        """Tell all who listen."""

    async def close(self) -> None:
        """Listen no more. Idempotent."""


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """A word: an event of a thread, or which threads its process watches (``fresh``: since now)."""

    by: str
    thread: str = ""
    kind: str = ""
    text: str = ""
    position: int = 0
    name: str = ""
    watched: tuple[str, ...] = ()
    fresh: bool = False
    number: int = 0
    """Makes words differ: of the same ones only one may arrive."""


class SharedLive(LocalLive):
    """The ``Live`` port over several processes. ``process``: a name that no other one has."""

    def __init__(self, wire: Wire, process: str) -> None:
        super().__init__()
        self._wire = wire
        self._process = process
        self._wanted: dict[str, float] = {}
        """Until when somebody elsewhere is taken to watch a thread, by the event loop's clock."""
        self._tidied = 0.0
        self._pending: dict[str, list[LiveEvent]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._telling = self._renewing = False
        self._numbers = itertools.count(1)

    def listen(self) -> None:
        """Hear from now on what others watch: for a process that runs slices."""
        self._wire.start(self._told)

    def publish(self, thread: str, event: LiveEvent) -> None:
        super().publish(thread, event)
        self._pass_on(thread, event)

    def streamed(self, thread: str, chunk: AnyChunk) -> None:
        super().streamed(thread, chunk)
        if thread in self._wanted and (event := event_of(chunk)) is not None:
            self._pass_on(thread, event)

    def watched(self, thread: str) -> bool:
        return super().watched(thread) or self._is_wanted(thread)

    async def follow(self, thread: str) -> AsyncIterator[LiveEvent]:
        self.listen()
        here = cast("AsyncGenerator[LiveEvent]", super().follow(thread))
        self._spawn(self._say([Told(self._process, watched=(thread,), fresh=True)]))
        if not self._renewing:
            self._renewing = True
            self._spawn(self._renew())
        async with aclosing(here):
            async for event in here:
                yield event

    async def close(self) -> None:
        """Stop listening and telling. Idempotent."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._wire.close()

    def _is_wanted(self, thread: str) -> bool:
        until = self._wanted.get(thread)
        if until is not None and until < asyncio.get_running_loop().time():
            del self._wanted[thread]
            return False
        return until is not None

    def _pass_on(self, thread: str, event: LiveEvent) -> None:
        if not self._is_wanted(thread):
            return
        events = self._pending.setdefault(thread, [])
        last = events[-1] if events else None
        if last and last.kind == event.kind in ("text", "reasoning") and len(last.text) < PIECE:
            events[-1] = LiveEvent(event.kind, last.text + event.text)
        else:
            events.append(event)
            del events[:-MOST]
        if not self._telling:
            self._telling = True
            self._spawn(self._tell_soon())

    async def _tell_soon(self) -> None:
        try:
            while self._pending:
                await asyncio.sleep(GATHERED)
                pending, self._pending = self._pending, {}
                await self._say(
                    [
                        Told(self._process, thread, piece.kind, piece.text, piece.position, piece.name)
                        for thread, events in pending.items()
                        for event in events
                        for piece in _pieces(event)
                    ]
                )
        finally:
            self._telling = False

    async def _renew(self) -> None:
        try:
            while True:
                await asyncio.sleep(RENEWED)
                names = tuple(self._watchers)
                if not names:
                    return
                parts = [names[at : at + THREADS] for at in range(0, len(names), THREADS)]
                await self._say([Told(self._process, watched=part) for part in parts])
        finally:
            self._renewing = False

    async def _say(self, told: Sequence[Told]) -> None:
        numbered = [msgspec.structs.replace(one, number=next(self._numbers)) for one in told]
        words = [msgspec.json.encode(one).decode() for one in numbered]
        try:
            await self._wire.tell([word for word in words if len(word.encode()) <= LONGEST])
        except TorporError as error:
            log.debug("Live events were not told: %s", error)

    def _told(self, word: str) -> None:
        """Another process, or this one, has told something."""
        try:
            told = msgspec.json.decode(word, type=Told)
        except msgspec.DecodeError:
            return
        if told.by == self._process:
            return
        if told.kind:
            super().publish(told.thread, LiveEvent(told.kind, told.text, told.position, told.name))
        now = asyncio.get_running_loop().time()
        self._tidy(now)
        for thread in told.watched:
            self._wanted[thread] = now + WANTED
            self.has_watchers = True
            if told.fresh:
                for event in self._snapshot(thread):
                    self._pass_on(thread, event)

    def _tidy(self, now: float) -> None:
        """Forget whom nobody watches any more: most of these threads never run here."""
        if now - self._tidied >= WANTED:
            self._tidied = now
            self._wanted = {thread: until for thread, until in self._wanted.items() if until >= now}
            self._count()

    def _count(self) -> None:
        self.has_watchers = bool(self._watchers or self._wanted)

    def _spawn(self, what: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _pieces(event: LiveEvent) -> Iterator[LiveEvent]:
    """An event whose text is long, as several; other things than text are not cut."""
    if event.kind not in ("text", "reasoning") or len(event.text) <= PIECE:
        yield event
        return
    for at in range(0, len(event.text), PIECE):
        yield LiveEvent(event.kind, event.text[at : at + PIECE])
