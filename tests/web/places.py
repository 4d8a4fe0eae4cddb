"""What the tests of the HTTP side share: a served runtime, a client of it, and waiting for a condition."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from torpor import Agent, Runtime
from torpor.models import ScriptedModel

DEADLINE = 10.0
TOKEN = "a-token-for-tests-only"


class Client:
    """Asks a server and keeps what it was answered."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """Status, and the body as JSON (None for an empty one)."""
        async with self.session.request(method, self.url + path, **options) as response:
            body = await response.read()
            return response.status, (await response.json() if body else None)

    async def start(self, text: str = "hi", agent: str = "echo") -> str:
        """A new thread's id."""
        status, body = await self.ask("POST", "/threads", json={"agent": agent, "text": text})
        assert status == 201, body
        id: str = body["id"]
        return id

    async def settled(self, thread: str, ends: int = 1) -> list[dict[str, Any]]:
        """The thread's messages, once so many of its turns have ended an exchange."""
        found: list[dict[str, Any]] = []

        async def enough() -> bool:
            nonlocal found
            _, body = await self.ask("GET", f"/threads/{thread}/messages")
            found = body["messages"]
            return sum(1 for message in found if message.get("end")) >= ends

        await until(enough)
        return found


def echo(**options: Any) -> Agent:
    """An agent that repeats what it is told."""
    return Agent("echo", model=ScriptedModel(lambda request: f"echo {request.text}"), **options)


@contextlib.asynccontextmanager
async def served(
    store: str, agents: Sequence[Agent] = (), *, workers: int = 4, **options: Any
) -> AsyncIterator[tuple[Runtime, Client]]:
    """A runtime that listens on loopback, and a client with its token."""
    async with (
        Runtime(store, agents=agents or [echo()], workers=workers, token=TOKEN, **options) as runtime,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session,
    ):
        yield runtime, Client(session, runtime.url)


def store_of(kind: str, folder: Path) -> str:
    """The URL of a fresh store."""
    return "memory:" if kind == "memory" else f"sqlite:///{folder / 'threads.db'}"


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Look again and again until a condition holds; fails after a while."""
    async with asyncio.timeout(DEADLINE):
        while not await condition():
            await asyncio.sleep(0.01)
