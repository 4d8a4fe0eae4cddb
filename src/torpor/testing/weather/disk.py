"""The durable state of a run, and how one process reaches it: slowly, not at all, or without an answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from torpor.core.errors import Unavailable
from torpor.ports import Commit, Lease, Ring
from torpor.testing.weather.sky import Disk, Up

WRITES = frozenset({
    "create", "post", "finish", "commit", "postpone", "claim", "hold", "delivered", "release", "hasten",
    "note", "prune", "take_in", "put_blob", "put", "put_new", "forget", "delete", "erase", "forget_records",
    "pack",
    "ring", "next", "extend", "done", "retry",
})  # fmt: skip
"""Durable actions: verbs that may change what is kept."""
HOLDERS = frozenset({"claim", "release"})


class Way:
    """How a process reaches the disk: each verb may be late, fail, or be the last thing that it does."""

    def __init__(self, process: Up, disk: Disk, target: Any) -> None:
        self._process = process
        self._weather = process.weather
        self._disk = disk
        self._target = target

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._target, name)

        async def go(*args: Any, **kwargs: Any) -> Any:
            return await self._through(name, lambda: verb(*args, **kwargs))

        setattr(self, name, go)
        return go

    async def close(self) -> None:
        """What is kept, stays."""

    async def _through(self, name: str, act: Callable[[], Awaitable[Any]]) -> Any:
        faults, process = self._weather.faults, self._process
        if name not in WRITES:
            await self._late(faults.strike("store slow"))
            if faults.strike("store away"):
                raise Unavailable("The store is away.")
            return await act()
        await self._late(faults.strike("store slow"))
        if faults.strikes("crash before a durable action"):
            await process.crash(f"before {name}", "crash before a durable action")
        if faults.strike("store away"):
            raise Unavailable("The store is away.")
        result = await act()
        if faults.strikes("crash after a durable action"):
            await process.crash(f"after {name}", "crash after a durable action")
        lost = faults.strike("store away, but committed")
        await self._late(slow=False)
        if lost:
            self._weather.trace(process.name, "answer lost", name)
            raise Unavailable("The store did not answer.")
        return result

    async def _late(self, slow: bool) -> None:
        draw = self._weather.random.random
        if slow:
            await asyncio.sleep(draw() * draw() * 40.0)
        elif draw() < 0.3:
            await asyncio.sleep(draw() * 0.05 if draw() < 0.3 else 0.0)


class StoreWay(Way):
    """The way to the store, with all that one process claims in its own name."""

    def __init__(self, process: Up, disk: Disk) -> None:
        super().__init__(process, disk, disk.store)

    async def claim(self, thread: str, ids: Sequence[str], until: float, *, holder: str = "") -> Any:
        holder = holder or self._process.name
        return await self._through("claim", lambda: self._disk.store.claim(thread, ids, until, holder=holder))

    async def release(self, thread: str, ids: Sequence[str], not_before: float, *, holder: str = "") -> None:
        holder, store = holder or self._process.name, self._disk.store
        await self._through("release", lambda: store.release(thread, ids, not_before, holder=holder))

    async def commit(self, commit: Commit) -> Any:
        commit = msgspec.structs.replace(commit, holder=commit.holder or self._process.name)
        return await self._through("commit", lambda: self._commit(commit))

    async def _commit(self, commit: Commit) -> Any:
        version = await self._disk.store.commit(commit)
        self._weather.record.commit(commit.thread, commit.effects)
        self._weather.trace(
            self._process.name, "commit", commit.thread, version.counter,
            len(commit.messages), sorted(commit.absorbed.items()), [one.id for one in commit.effects],
        )  # fmt: skip
        return version

    async def post(self, signals: Sequence[Any]) -> Any:
        return await self._through("post", lambda: self._post(signals))

    async def _post(self, signals: Sequence[Any]) -> Any:
        for signal in signals:
            self._weather.record.posted(signal)
        posted = await self._disk.store.post(signals)
        told = [(one.thread, one.id, done.outcome) for one, done in zip(signals, posted, strict=True)]
        self._weather.trace(self._process.name, "post", told)
        return posted

    async def create(self, row: Any, signals: Sequence[Any] = (), *, effect: str = "") -> bool:
        return bool(await self._through("create", lambda: self._create(row, signals, effect)))

    async def _create(self, row: Any, signals: Sequence[Any], effect: str) -> bool:
        for signal in signals:
            self._weather.record.posted(signal)
        made = await self._disk.store.create(row, signals, effect=effect)
        self._weather.trace(self._process.name, "create", row.thread, row.purpose, made)
        return made


class QueueWay(Way):
    """The way to the queue; rings may be lost, and leases end before their time."""

    def __init__(self, process: Up, disk: Disk) -> None:
        super().__init__(process, disk, disk.queue)

    async def ring(self, rings: Sequence[Ring]) -> None:
        if self._weather.faults.strike("ring lost"):
            return
        await self._through("ring", lambda: self._disk.queue.ring(rings))
        self._disk.hint()

    async def done(self, lease: Lease, *, again_at: float = 0.0) -> None:
        await self._through("done", lambda: self._disk.queue.done(lease, again_at=again_at))
        self._disk.hint()

    async def next(self, worker: str, *, wait: float = 0.0, **asked: Any) -> list[Lease]:
        queue, loop = self._disk.queue, self._weather.loop
        until = loop.time() + wait
        while True:
            leases = await self._through("next", lambda: queue.next(worker, **asked))
            left = until - loop.time()
            if leases or left <= 0:
                self._weaken(leases)
                return list(leases)
            ahead = queue._next_change() - self._disk.clock.now()
            await self._rest(min(left, max(0.25, ahead)))

    async def _rest(self, seconds: float) -> None:
        """Until somebody rings, or for so long."""
        woken = self._weather.loop.create_future()
        self._disk.waiting.append(woken)
        timer = self._weather.loop.call_later(seconds, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    def _weaken(self, leases: Sequence[Lease]) -> None:
        """Have a lease end while its holder believes in it."""
        for lease in leases:
            self._weather.trace(self._process.name, "lease", lease.thread)
            if self._weather.faults.strike("lease given up early"):
                self._weather.later(self._weather.random.random() * 10.0, self._take_away(lease))

    async def _take_away(self, lease: Lease) -> None:
        await self._disk.queue.retry(lease, self._disk.clock.now())
        self._disk.hint()

    async def extend(self, leases: Sequence[Lease]) -> tuple[list[Lease], set[str]]:
        if leases and self._weather.faults.strike("lease lost early"):
            await self._take_away(leases[0])
        result: tuple[list[Lease], set[str]] = await self._through(
            "extend", lambda: self._disk.queue.extend(leases)
        )
        return result


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
