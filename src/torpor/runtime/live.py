"""What watchers are told while things happen. Lossy: buffers are bounded, and the truth is in the store."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from torpor.core.chunks import AnyChunk, CallStart, ReasoningDelta, TextDelta
from torpor.core.messages import Text
from torpor.core.turn import Gathering
from torpor.ports import LiveEvent

BUFFERED = 1_000
HELD = 512 * 1024
"""Characters of the events that one watcher has not taken yet; the oldest make room."""
HELD_BY_ALL = 64 * 1024 * 1024
"""Characters that all watchers of this process together have not taken; who brings more loses its oldest."""
STARTED = LiveEvent("started")


class LocalLive:
    """Fans events out to the watchers in this process."""

    def __init__(self) -> None:
        self._watchers: dict[str, list[_Watcher]] = {}
        self._running: dict[str, Gathering] = {}
        self.has_watchers = False
        """Somebody may watch some thread here: without, nobody need be told of chunks."""
        self._held = _Held()

    def publish(self, thread: str, event: LiveEvent) -> None:
        """Tell whoever watches; never waits, never fails."""
        for watcher in self._watchers.get(thread, ()):
            watcher.put(event)

    def streamed(self, thread: str, chunk: AnyChunk) -> None:
        """A running completion has brought a chunk."""
        watchers = self._watchers.get(thread)
        if watchers is not None and (event := event_of(chunk)) is not None:
            for watcher in watchers:
                watcher.put(event)

    def watched(self, thread: str) -> bool:
        """Whether anybody watches the thread here."""
        return thread in self._watchers

    def started(self, thread: str, gathering: Gathering) -> None:
        """A completion streams into ``gathering`` from now on; who connects later is shown it so far."""
        self._running[thread] = gathering
        self.publish(thread, STARTED)

    def ended(self, thread: str) -> None:
        """That completion is over, committed or dropped."""
        self._running.pop(thread, None)

    async def follow(self, thread: str) -> AsyncIterator[LiveEvent]:
        """What is published from now on, after a snapshot of the text that is being written."""
        watcher = _Watcher(self._held)
        self._watchers.setdefault(thread, []).append(watcher)
        self._count()
        try:
            for event in self._snapshot(thread):
                yield event
            while True:
                yield await watcher.get()
        finally:
            self._leave(thread, watcher)

    def _snapshot(self, thread: str) -> list[LiveEvent]:
        gathering = self._running.get(thread)
        if gathering is None:
            return []
        texts = [part.text for part in gathering.so_far() if isinstance(part, Text)]
        return [STARTED, LiveEvent("text", "\n".join(texts))]

    def _leave(self, thread: str, watcher: "_Watcher") -> None:
        watchers = self._watchers[thread]
        watchers.remove(watcher)
        watcher.clear()
        if not watchers:
            del self._watchers[thread]
            self._count()

    def _count(self) -> None:
        self.has_watchers = bool(self._watchers)


def event_of(chunk: AnyChunk) -> LiveEvent | None:
    """What watchers are told of a chunk."""
    if isinstance(chunk, TextDelta):
        return LiveEvent("text", chunk.text)
    if isinstance(chunk, ReasoningDelta):
        return LiveEvent("reasoning", chunk.text)
    if isinstance(chunk, CallStart):
        return LiveEvent("call", chunk.name)
    return None


class _Held:
    """Characters that all watchers hold."""

    def __init__(self) -> None:
        self.size = 0


class _Watcher:
    def __init__(self, all_held: _Held) -> None:
        self._events: deque[LiveEvent] = deque()
        self._size = 0
        self._all = all_held
        self._news = asyncio.Event()

    def put(self, event: LiveEvent) -> None:
        self._events.append(event)
        self._count(len(event.text))
        while self._events and (
            self._size > HELD or self._all.size > HELD_BY_ALL or len(self._events) > BUFFERED
        ):
            self._take()
        self._news.set()

    async def get(self) -> LiveEvent:
        while not self._events:
            self._news.clear()
            await self._news.wait()
        return self._take()

    def clear(self) -> None:
        """Let go of all that was not taken."""
        while self._events:
            self._take()

    def _take(self) -> LiveEvent:
        event = self._events.popleft()
        self._count(-len(event.text))
        return event

    def _count(self, size: int) -> None:
        self._size += size
        self._all.size += size
