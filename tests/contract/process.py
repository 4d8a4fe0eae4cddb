"""What other processes do in the tests of the SQLite file: ``python process.py ROLE FILE ARGUMENTS…``."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from itertools import count

from torpor.core.errors import Conflict
from torpor.ports import Ring
from torpor.queues.sqlite import SqliteQueue
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.samples import commit_on, said, texts


def tell(*words: object) -> None:
    """A line for the parent, at once."""
    print(*words, flush=True)


async def post(store: SqliteStore, thread: str, name: str, number: str) -> None:
    """Post ``number`` signals, sixteen at a time."""
    left = iter(range(int(number)))

    async def some() -> None:
        for place in left:
            await store.post([said(thread, id=f"{name}/{place}")])

    await asyncio.gather(*(some() for _ in range(16)))


async def append(store: SqliteStore, thread: str, name: str, number: str) -> None:
    """Add ``number`` messages to one thread, again after each lost race."""
    for place in range(int(number)):
        while True:
            try:
                await store.commit(commit_on(await store.load(thread), f"{name}/{place}"))
            except Conflict:
                continue
            break


async def read(store: SqliteStore, thread: str, number: str) -> None:
    """Load over and over until that many signals are there, or whoever started this is gone."""
    found, parent = 0, os.getppid()
    while found < int(number) and os.getppid() == parent:
        found = len(await store.inbox(thread))
        await store.load(thread)


async def write_for_ever(store: SqliteStore, *threads: str) -> None:
    """Commit to many threads at once, telling what was acknowledged, until killed."""

    async def one(thread: str) -> None:
        for place in count():
            await store.post([said(thread, id=f"{thread}/{place}")])
            await store.commit(commit_on(await store.load(thread), f"{place}a", f"{place}b"))
            tell(thread, place)

    await asyncio.gather(*(one(thread) for thread in threads))


async def lease(store: SqliteStore, thread: str) -> None:
    """Ring and lease a thread, then hang."""
    queue = SqliteQueue(store.database)
    await queue.ring([Ring(thread, 0.0)])
    (held,) = await queue.next("doomed")
    tell(held.thread)
    await asyncio.Event().wait()


async def show(store: SqliteStore, thread: str) -> None:
    """Tell a thread's texts."""
    tell(*texts(await store.read(thread)))


ROLES: dict[str, Callable[..., Awaitable[None]]] = {
    role.__name__: role for role in (post, append, read, write_for_ever, lease, show)
}


async def main(role: str, file: str, *arguments: str) -> None:
    store = SqliteStore(Database.open(file))
    await ROLES[role](store, *arguments)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
