"""Deletion and forgetting of threads in this process's memory."""

import asyncio
import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from torpor.core.codec import decode_record
from torpor.core.errors import Conflict, Refused
from torpor.core.moves import AWAY, MOVED
from torpor.core.signals import kind_of
from torpor.core.views import views_space
from torpor.ports import BY_THREAD, NAMING, Version
from torpor.stores.memory_side import MemorySide
from torpor.stores.memory_thread import MemoryThread

_OVER = ("closed", MOVED)
"""States of threads that may go once they are old."""


class MemoryRetention(MemorySide):
    """The ``Retention`` port, over the rows that ``MemoryStore`` keeps."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now)
        self._threads: dict[str, MemoryThread] = {}
        self._stirring: dict[str, MemoryThread] = {}
        """Those with a signal, an effect or an answer owed: what the sweep has to look at."""
        self._deleted: dict[str, MemoryThread] = {}
        self._awake: dict[str, MemoryThread] = {}
        """Those that are not packed."""

    async def closed(self, before: float, *, after: str = "", limit: int = 1000) -> list[str]:
        rows = (thread.row for thread in self._threads.values())
        old = {row.root or row.thread for row in rows if row.state in _OVER and row.updated < before}
        return heapq.nsmallest(limit, (root for root in old if root > after))

    async def heirs(self, threads: Sequence[str]) -> dict[str, str]:
        of = set(threads)
        rows = (thread.row for thread in self._threads.values())
        return {row.thread: row.source for row in rows if row.source in of and row.thread not in of}

    async def delete(
        self,
        threads: Sequence[str],
        *,
        closed_before: float = 0.0,
        versions: Mapping[str, Version] | None = None,
    ) -> int:
        going = {id: self._threads[id] for id in dict.fromkeys(threads) if id in self._threads}
        self._check_left(going)
        for id, thread in going.items():
            if closed_before and not _is_over(thread, closed_before):
                raise Conflict(f"The thread {id} has moved on, or still has something to tell.")
            known = (versions or {}).get(id, None if thread.row.state in AWAY else thread.row.version)
            if known != thread.row.version:
                raise Conflict(f"The thread {id} has moved on.")
        for id, thread in going.items():
            self._deleted[id] = thread
            del self._threads[id]
            self._stirring.pop(id, None)
            self._awake.pop(id, None)
        return len(going)

    def _check_left(self, going: Collection[str]) -> None:
        for id, thread in self._threads.items():
            of = next((one for one in (thread.row.parent, thread.row.source) if one in going), None)
            if of and id not in going:
                raise Conflict(f"The thread {id} comes of {of} and stays.")

    async def deleted(self, limit: int = 1000) -> list[str]:
        return list(self._deleted)[:limit]

    async def orphans(self, before: float, limit: int = 1000) -> list[str]:
        ids = [of for (of, _), at in self._blobs_at.items() if at < before]
        for space, values in self._spaces.items():
            kind, _, viewed = space.partition("/")
            if space in BY_THREAD or kind == "views":
                old = [key for key, (_, at) in values.items() if at < before]
                ids += [viewed or key.partition("/")[0] for key in old]
        known = self._threads.keys() | self._deleted.keys()
        return heapq.nsmallest(limit, set(ids) - known)

    async def erase(self, thread: str, limit: int = 1000) -> dict[str, int]:
        if thread in self._threads:
            raise Refused(f"The thread {thread!r} is there. Delete it first.")
        erased: dict[str, int] = {}
        for kind, keys, drop in self._left(thread):
            going = keys[: limit - sum(erased.values())]
            for key in going:
                drop(key)
            if going:
                erased[kind] = erased.get(kind, 0) + len(going)
        if thread in self._deleted and sum(erased.values()) < limit:
            del self._deleted[thread]
            erased["threads"] = 1
        return erased

    async def footprint(self, thread: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for kind, keys, _ in self._left(thread):
            found[kind] = found.get(kind, 0) + len(keys)
        found["threads"] = int(thread in self._threads or thread in self._deleted)
        everyone = (*self._threads.values(), *self._deleted.values())
        rows = (other.row for other in everyone if other.row.thread != thread)
        found["named"] = sum(thread in (row.parent, row.root, row.source) for row in rows)
        return {kind: count for kind, count in found.items() if count}

    def _left(self, id: str) -> Iterator[tuple[str, list[Any], Callable[[Any], object]]]:
        """What is kept under an id: the kind, the keys, and what drops one of them."""
        thread = self._threads.get(id) or self._deleted.get(id)
        if thread is not None:
            yield "messages", _from_last(thread.bodies), thread.bodies.pop
            yield "inbox", list(thread.inbox), thread.inbox.pop
            yield "absorbed", list(thread.seen), thread.seen.pop
            yield "outbox", list(thread.outbox), thread.outbox.pop
            yield "records", _from_last(thread.records), thread.records.pop
        yield "blobs", [key for key in self._blobs if key[0] == id], self._drop_blob
        for space, values in self._spaces.items():
            yield "small", [key for key in values if _is_of(id, space, key, values[key][0])], values.pop

    async def forget_records(self, before: float) -> int:
        forgotten = 0
        for thread in [thread for thread in self._threads.values() if thread.is_older(before)]:
            kept = [body for body in thread.records[:-1] if decode_record(body).committed_at >= before]
            forgotten += max(0, len(thread.records) - 1 - len(kept))
            thread.records[:-1] = kept
        return forgotten

    async def pack(self, before: float, limit: int = 1000) -> int:
        resting = [one for one in self._awake.values() if one.row.updated < before and not one.row.owes]
        for thread in resting[:limit]:
            thread.pack()
            await asyncio.sleep(0)  # one at a time: others wait no longer than for one
        return len(resting[:limit])

    async def scrub(self) -> None:
        """Nothing is in files."""


def _from_last(entries: Sequence[bytes]) -> list[int]:
    return list(range(len(entries) - 1, -1, -1))


def _is_of(thread: str, space: str, key: str, value: bytes) -> bool:
    """Whether a small value belongs to a thread."""
    if space in NAMING:
        return thread.encode() in value
    if space in BY_THREAD:
        return key.partition("/")[0] == thread
    return space == views_space(thread)


def _is_over(thread: MemoryThread, before: float) -> bool:
    """Closed or moved since before an instant, and nobody waits for anything of it."""
    row, signals = thread.row, [signal for signal, _ in thread.inbox.values()]
    told = row.state == "closed" and any(kind_of(signal) in ("born", "reported") for signal in signals)
    return row.state in _OVER and row.updated < before and not (thread.outbox or told)
