"""Processes that do things to trees: ``python -m tests.end_to_end.wandering ROLE STORE [OTHER]``."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from tests.runtime.cast import Cast, spawns
from torpor import Agent, Keep, Runtime
from torpor.core.errors import TorporError
from torpor.core.moves import ARRIVING
from torpor.models import call, say
from torpor.ports import Backend, Row
from torpor.runtime.deletion import Counting, away, erase
from torpor.runtime.moving_plan import is_whole
from torpor.runtime.sweep import sweep
from torpor.runtime.trees import family

MANY = 10_000
LEASE, CLAIM = 0.4, 0.6
"""Seconds after which what a dead process held may be taken up."""


def wanderer() -> Agent:
    root: list[Any] = [spawns("as kid: wait"), *[say("Noted.")] * MANY]
    kid: list[Any] = [call("sleep", seconds=10_000), *[say("Still here.")] * MANY]
    return Agent("wanderer", model=Cast(root=root, kid=kid))


def opened(store: str, **options: Any) -> Runtime:
    lasting = {} if store.startswith("postgres") else {"synchronous": "NORMAL"}
    options = {"workers": 0, "lease": LEASE, "claim": CLAIM, **lasting, **options}
    return Runtime(store, agents=[wanderer()], listen=None, **options)


async def roots(runtime: Runtime) -> list[Row]:
    return await runtime.threads(parent="", limit=1_000)


async def work(store: str) -> None:
    """Run slices."""
    async with opened(store, workers=2) as runtime:
        print("ready", flush=True)
        while True:
            await asyncio.sleep(0.2)
            await sweep(runtime.parts.store, runtime.parts.queue)


async def move(store: str, other: str) -> None:
    """Move all trees to another store, again and again."""
    async with opened(store) as here, opened(other) as there:
        print("ready", flush=True)
        while True:
            for row in await roots(here):
                try:
                    await here.move(row.id, there, patience=2.0)
                except TorporError as error:
                    print(f"{row.id}: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(0.01)


async def stay(store: str, other: str) -> None:
    """Give up moves that seem to be under way, again and again."""
    async with opened(store) as here, opened(other) as there:
        print("ready", flush=True)
        while True:
            for row in await roots(here):
                try:
                    await here.stay(row.id, there)
                except TorporError as error:
                    print(f"{row.id}: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(0.01)


async def drop_one(backend: Backend, root: str) -> None:
    """As ``torpor delete`` does, if what is there is a copy still."""
    rows = await family(backend, root)
    own = [row for row in rows if row.id == root and row.state == ARRIVING and not is_whole(row)]
    if own and await backend.delete([row.id for row in rows], versions=away(rows)):
        await erase(backend, [row.id for row in rows], Counting())


async def drop(store: str, *_: str) -> None:
    """Delete copies that are arriving, again and again."""
    async with opened(store) as runtime:
        print("ready", flush=True)
        while True:
            for row in await runtime.threads(state="arriving", parent="", limit=1_000):
                with contextlib.suppress(TorporError):
                    await drop_one(runtime.parts.backend, row.id)
            await asyncio.sleep(0.001)


async def delete(store: str, *_: str) -> None:
    """Delete all trees that are owned by ``doomed``, with their forks."""
    async with opened(store) as runtime:
        print("ready", flush=True)
        while doomed := await runtime.threads(owner="doomed", parent="", limit=1_000):
            for row in doomed:
                try:
                    await runtime.delete(row.id, forks=True)
                except TorporError as error:
                    print(f"{row.id}: {error}", file=sys.stderr, flush=True)
        print("done", flush=True)


async def prune(store: str, *_: str) -> None:
    """Forget what is closed or has moved, however young, again and again."""
    async with opened(store) as runtime:
        print("ready", flush=True)
        while True:
            try:
                await runtime.prune(Keep(closed=0.001, records=0.001, ids=0.0))
            except TorporError as error:
                print(error, file=sys.stderr, flush=True)
            await asyncio.sleep(0.01)


async def fork(store: str, *_: str) -> None:
    """Fork trees and have them summed up, again and again."""
    async with opened(store) as runtime:
        print("ready", flush=True)
        while True:
            for row in await roots(runtime):
                try:
                    if row.owner == "doomed":
                        await runtime.thread(row.id).fork()
                        await runtime.thread(row.id).compact()
                except TorporError as error:
                    print(f"{row.id}: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(0.01)


ROLES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    role.__name__: role for role in (work, move, stay, drop, delete, prune, fork)
}

if __name__ == "__main__":
    asyncio.run(ROLES[sys.argv[1]](*sys.argv[2:]))
