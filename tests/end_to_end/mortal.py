"""Processes that kill themselves at a named point: ``python -m tests.end_to_end.mortal ROLE …``."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from torpor import Agent, RapServer, Runtime, ToolContext, tool
from torpor.core.codec import decode_head
from torpor.models import ScriptedModel, call, say
from torpor.queues.sqlite import SqliteQueue
from torpor.runtime.sweep import sweep
from torpor.stores.sqlite import Database, SqliteStore
from torpor.tools.client import HttpTransport
from torpor.tools.server import ToolCall, ToolServer
from torpor.wiring import Parts

LEASE = 0.4
"""Seconds after which the thread of a worker that died may be taken up again."""
CLAIM = 0.6
"""Likewise for the effects that it held."""
LONG = 30.0
"""The same for processes that are to live."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Place:
    """A folder in which effects leave their traces."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def effect(self, kind: str, key: str) -> None:
        """Something happens in the world, once for each key."""
        (self.folder / f"{kind} {key.replace('/', ' ')}").touch()
        with (self.folder / "runs").open("a") as runs:
            runs.write(f"{kind}\n")

    def count(self, kind: str) -> int:
        return len(list(self.folder.glob(f"{kind} *")))

    def runs(self, kind: str) -> int:
        path = self.folder / "runs"
        return path.read_text().splitlines().count(kind) if path.exists() else 0

    def first_time(self, what: str) -> bool:
        try:
            (self.folder / f".{what}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def clerk(tools: str, place: Place) -> Agent:
    """An agent with a tool of each kind."""

    @tool(repeat="keyed")
    async def book(amount: int, context: ToolContext) -> str:
        """Book an amount, once per key."""
        place.effect("book", context.idempotency_key)
        return f"booked {amount}"

    @tool(repeat="safe")
    def peek(what: str) -> str:
        """Look at something."""
        place.effect("peek", what)
        return f"saw {what}"

    @tool
    async def mail(to: str, context: ToolContext) -> str:
        """Send a mail, which nobody can take back."""
        place.effect("mail", f"{context.idempotency_key} {context.attempt}")
        return f"mailed {to}"

    script: list[Any] = [
        [
            say("I do it all."),
            call("charge", amount=7),
            call("book", amount=8),
            call("peek", what="a"),
            call("mail", to="b"),
        ],
        lambda request: say("; ".join(result.text for result in request.results)),
    ]
    return Agent("clerk", model=ScriptedModel(script), tools=[book, peek, mail, RapServer(tools)])


class Doomed:
    """Something of which one method ends the process, before or after it is done."""

    def __init__(self, inner: object, method: str, *, after: bool, when: Callable[..., bool]) -> None:
        self._inner = inner
        self._method = method
        self._after = after
        self._when = when

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        return self._deadly(value) if name == self._method else value

    def _deadly(self, action: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def deadly(*args: Any, **kwargs: Any) -> Any:
            fatal = self._when(*args)
            if fatal and not self._after:
                die()
            done = await action(*args, **kwargs)
            if fatal:
                die()
            return done

        return deadly


def always(*_: object) -> bool:
    return True


POINTS: dict[str, tuple[str, str, bool, Callable[..., bool]]] = {
    "before the commit": ("store", "commit", False, always),
    "after the commit, before dispatch": ("store", "commit", True, always),
    "after dispatch, before its acknowledgement": ("transport", "invoke", True, always),
    "after a function's effect, before its result": ("store", "finish", False, always),
    "after a function's result, before the ring": ("store", "finish", True, always),
}


async def work(store: str, tools: str, folder: str, thread: str, point: str) -> None:
    """Run slices until the thread has nothing left to do, or until the point."""
    database = Database.open(store)
    parts: dict[str, Any] = {
        "store": SqliteStore(database),
        "queue": SqliteQueue(database, lease=LEASE if point else LONG),
        "transport": HttpTransport([RapServer(tools)]),
    }
    if point:
        part, method, after, when = POINTS[point]
        parts[part] = Doomed(parts[part], method, after=after, when=when)
    opened = Parts(
        store,
        [clerk(tools, Place(Path(folder)))],
        claim=CLAIM if point else LONG,
        backends=(parts["store"], parts["queue"]),
        transport=parts["transport"],
    )
    async with opened:
        worker = opened.worker(2)
        worker.start()
        while not await _is_over(opened, thread):
            await sweep(opened.store, opened.queue)
            await asyncio.sleep(0.05)
        await worker.stop(1.0)
        await opened.dispatcher.drain(1.0)


async def _is_over(parts: Parts, thread: str) -> bool:
    row = await parts.threads.row(thread)
    head = decode_head(row.head, row.shape)
    return bool(head.ordinal) and not head.exchange.open and not parts.dispatcher.busy


async def receive(store: str, listen: str, folder: str, point: str) -> None:
    """Take callbacks, and die when the first one is stored and its thread is to be rung."""
    place = Place(Path(folder))
    database = Database.open(store)
    queue: Any = SqliteQueue(database)
    if point:
        queue = Doomed(queue, "ring", after=False, when=always)
    backends = (SqliteStore(database), queue)
    agents = [clerk("http://127.0.0.1:1", place)]
    async with Runtime(store, agents=agents, workers=0, listen=listen, backends=backends) as runtime:
        print(runtime.url, flush=True)
        await asyncio.Event().wait()


async def serve(folder: str, port: str, point: str) -> None:
    """Serve a tool that dies, once, after its effect and before it can say so."""
    place = Place(Path(folder))
    server = ToolServer("till", outbox=place.folder / "till.outbox.db")

    @server.tool(idempotent=True)
    async def charge(call: ToolCall, amount: int) -> str:
        """Charge an amount, once per key."""
        place.effect("charge", f"{call.thread} {call.key}")
        if point and place.first_time("charged"):
            die()
        return f"charged {amount}"

    async with server.listening(port=int(port)) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


ROLES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    role.__name__: role for role in (work, receive, serve)
}

if __name__ == "__main__":
    asyncio.run(ROLES[sys.argv[1]](*sys.argv[2:]))
