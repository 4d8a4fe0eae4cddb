"""One process of a soak: ``python bench/soak_process.py ROLE`` with its order on the standard input.

Roles: ``worker`` runs slices; ``serve`` answers the API and takes callbacks; ``steady`` and ``frail`` are
tool servers; ``wire`` stands between tool servers and the API and doubles, loses and refuses callbacks. Each
tells below ``pulse/`` how many tasks it has, and ends with its parent.
"""

import asyncio
import contextlib
import ctypes
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web
from soak_agents import agents

from torpor import Runtime
from torpor.runtime.retention import Keep
from torpor.tools.server import ToolCall, ToolServer, kit
from torpor.wiring import open_parts

PULSE = 2.0
HOT = 256 * 1024
"""Bytes of recently used threads in a worker: few, so that they are full soon and memory can be flat."""
OUTBOX_KEPT = 60.0
DOUBLED, UNANSWERED, REFUSED = 0.2, 0.05, 0.05
"""Shares of callbacks that come twice, whose answer is lost, and that are not passed on at first."""
SILENT, SPEAKING = 5.0, 55.0
"""Seconds for which the wire is cut, and those between."""


class Order(msgspec.Struct, frozen=True):
    """What all processes of a soak have in common."""

    store: str
    folder: str
    token: str
    ports: dict[str, int]
    """By role: ``serve``, ``wire``, ``steady``, ``frail``."""
    lease: float
    claim: float
    keep: Keep

    def url(self, role: str) -> str:
        """Where a role listens."""
        return f"http://127.0.0.1:{self.ports[role]}"

    def effect(self, kind: str, thread: str, call: str) -> None:
        """Something happens in the world: a line is added, in one piece."""
        place = os.open(Path(self.folder) / "effects" / kind, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(place, f"{thread} {call}\n".encode())
        os.close(place)


async def work(order: Order) -> None:
    """Run slices."""
    known = agents(order.url("steady"), order.url("frail"), order.effect)
    parts = open_parts(
        order.store, known, lease=order.lease, claim=order.claim, keep=order.keep, hot=HOT, owner_cap=1000
    )
    async with parts, parts.working(8):
        await _asked_to_stop()


async def serve(order: Order) -> None:
    """Answer the API and take callbacks."""
    known = agents(order.url("steady"), order.url("frail"), order.effect)
    runtime = Runtime(
        order.store,
        agents=known,
        listen=f"127.0.0.1:{order.ports['serve']}",
        public_url=order.url("wire"),
        token=order.token,
        workers=0,
        keep=order.keep,
    )
    async with runtime:
        await _asked_to_stop()


async def tools(order: Order, role: str) -> None:
    """Serve tools."""
    kit._PRUNE_EVERY = 10.0  # noqa: SLF001  # in place of an hour
    server = ToolServer(role, outbox=Path(order.folder) / f"{role}.outbox.db", keep=OUTBOX_KEPT)
    (_steady if role == "steady" else _frail)(server, order)
    async with server.listening(port=order.ports[role]):
        await _asked_to_stop()


def _steady(server: ToolServer, order: Order) -> None:
    @server.tool(idempotent=True)
    async def weigh(call: ToolCall, what: str) -> str:
        """Weigh something."""
        await asyncio.sleep(random.uniform(0.0, 1.0))
        order.effect("weigh", call.thread, call.id)
        return f"{what} is light"

    @server.tool(restartable=True)
    async def ask(call: ToolCall, what: str) -> str:
        """Ask a person about something."""
        chosen = await call.choose(f"What about {what}?", ["keep", "drop"], expires=20.0)
        order.effect("ask", call.thread, call.id)
        return chosen.text

    @server.tool(long_running=True, restartable=True)
    async def watch(call: ToolCall, times: int) -> None:
        """Tell of something several times."""
        await call.subscribe("Watching.", remember=0)
        for number in range(call.memory, times):
            await asyncio.sleep(random.uniform(0.1, 1.5))
            final = number + 1 == times
            await call.event(f"event {number}", associative=number % 2 == 1, final=final, remember=number + 1)

    @server.tool(long_running=True, restartable=True)
    async def linger(call: ToolCall, what: str) -> str:
        """Take a minute."""
        await asyncio.sleep(60.0)
        order.effect("linger", call.thread, call.id)
        return what


def _frail(server: ToolServer, order: Order) -> None:
    @server.tool(idempotent=True)
    async def lift(call: ToolCall, what: str) -> str:
        """Lift something."""
        await asyncio.sleep(random.uniform(0.0, 2.0))
        order.effect("lift", call.thread, call.id)
        return f"lifted {what}"


async def wire(order: Order) -> None:
    """Pass callbacks on, more or less."""
    application = web.Application(client_max_size=1 << 26)
    async with aiohttp.ClientSession() as session:

        async def passed(request: web.Request) -> web.Response:
            body, to = await request.read(), f"{order.url('serve')}{request.path_qs}"
            chance = random.random()
            if chance < REFUSED or _is_cut():
                return web.Response(status=503)
            if chance > 1 - DOUBLED:
                await asyncio.gather(*(_post(session, to, body, request) for _ in range(2)))
            status, answer = await _post(session, to, body, request)
            return web.Response(status=503 if chance < REFUSED + UNANSWERED else status, body=answer)

        application.router.add_post("/{path:.*}", passed)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", order.ports["wire"]).start()
        await _asked_to_stop()
        await runner.cleanup()


async def _post(
    session: aiohttp.ClientSession, to: str, body: bytes, request: web.Request
) -> tuple[int, bytes]:
    passing = ("content-type", "idempotency-key", "webhook-id", "webhook-timestamp", "webhook-signature")
    headers = {name: request.headers[name] for name in passing if name in request.headers}
    try:
        async with session.post(to, data=body, headers=headers) as answer:
            return answer.status, await answer.read()
    except aiohttp.ClientError:
        return 502, b""


def _is_cut() -> bool:
    return asyncio.get_running_loop().time() % (SILENT + SPEAKING) < SILENT


async def _asked_to_stop() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print("ready", flush=True)
    await stop.wait()


@contextlib.asynccontextmanager
async def pulse(folder: Path) -> AsyncIterator[None]:
    """Tell every now and then how many tasks there are."""

    async def beat() -> None:
        while True:
            (folder / str(os.getpid())).write_text(str(len(asyncio.all_tasks())))
            await asyncio.sleep(PULSE)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()


async def live(role: str, order: Order) -> None:
    """The life of a process."""
    async with pulse(Path(order.folder) / "pulse"):
        if role == "worker":
            await work(order)
        elif role == "serve":
            await serve(order)
        elif role == "wire":
            await wire(order)
        else:
            await tools(order, role)


def end_with_parent() -> None:
    """Have the system kill this process when the one that started it is gone."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent()
    asyncio.run(live(sys.argv[1], msgspec.json.decode(sys.stdin.buffer.read(), type=Order)))
