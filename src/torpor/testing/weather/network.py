"""The network: what is sent may be lost, late, doubled or answered too late, in both directions."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from torpor.core.errors import TorporError, Unavailable
from torpor.testing.weather.loop import Place
from torpor.testing.weather.record import Sending
from torpor.testing.weather.sky import Sky, Up
from torpor.tools.client import Ambiguous

T = TypeVar("T")


class Lost(Exception):
    """No answer came in time: nobody knows whether the request arrived."""


class Away(Exception):
    """Nobody is there: the request was certainly not taken."""


class Network:
    """Carries requests from one place to another, and answers back."""

    def __init__(self, weather: Sky) -> None:
        self._weather = weather

    def _latency(self, kind: str) -> float:
        draw = self._weather.random.random
        if self._weather.faults.strike(kind):
            return draw() * draw() * 60.0
        return draw() * 0.02

    async def carry(self, place: Place, work: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Have work done at a place; gives what came of it, or raises that. ``Lost`` or ``Away`` else."""
        loop, faults = self._weather.loop, self._weather.faults
        if place.dead:
            raise Away
        answer: asyncio.Future[T] = loop.create_future()
        times = 0 if faults.strike("request lost") else 2 if faults.strike("request doubled") else 1
        for _ in range(times):
            loop.call_later(
                self._latency("request late"),
                self._arrive,
                place,
                work,
                answer,
                context=loop.outside.context.copy(),
            )
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise Lost from None

    def _arrive(self, place: Place, work: Callable[[], Awaitable[T]], answer: "asyncio.Future[T]") -> None:
        if place.dead:
            if not answer.done():
                answer.set_exception(Away())
            return
        self._weather.loop.begin(place, self._serve(place, work, answer))

    async def _serve(
        self, place: Place, work: Callable[[], Awaitable[T]], answer: "asyncio.Future[T]"
    ) -> None:
        loop, outside = self._weather.loop, self._weather.loop.outside
        error: Exception | None = None
        result: Any = None
        try:
            result = await work()
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is the answer
            error = failure
        if not place.dead and not self._weather.faults.strike("answer lost"):
            loop.call_later(
                self._latency("answer late"), _reply, answer, result, error, context=outside.context.copy()
            )


def _reply(answer: "asyncio.Future[Any]", result: object, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


SECONDS = 10.0
"""Seconds that a tool server may take for one request."""


class Wire:
    """The ``Transport`` port of one process."""

    def __init__(self, process: Up) -> None:
        self._weather = process.weather
        self._process = process

    async def _ask(self, server: str, work: Callable[[], Awaitable[T]]) -> T:
        weather = self._weather
        if weather.faults.strike("server away"):
            raise Unavailable(f"{server} cannot be reached.")
        try:
            answer: T = await weather.network.carry(weather.loop.outside, work, SECONDS)
        except Lost:
            raise Ambiguous(f"{server} did not answer within {SECONDS:g} s.") from None
        return answer

    async def discover(self, server: str) -> bytes:
        return await self._ask(server, self._weather.servers[server].manifest)

    async def invoke(self, server: str, endpoint: str, body: Mapping[str, Any], key: str) -> None:
        facts, record = dict(body), self._weather.record
        call, thread = facts["call"], facts["thread"]
        record.must(f"{thread}/{call}/invoke" in record.decided, f"{call} was sent before it was committed")
        record.must(key == call, f"{call} was sent under the key {key}")
        sending = Sending(call, thread, facts["name"], facts["arguments"], server)
        record.sendings[call].append(sending)
        self._weather.trace(self._process.name, "invoke", facts["name"], call)
        try:
            await self._ask(server, lambda: self._weather.servers[server].invoke(facts))
        except TorporError as error:
            sending.outcome = "ambiguous" if getattr(error, "ambiguous", False) else "not sent"
            raise
        sending.outcome = "sent"

    async def cancel(self, server: str, thread: str, call: str, trace: str = "") -> None:
        await self._notice(server, lambda: self._weather.servers[server].cancel(call))

    async def close_thread(self, server: str, thread: str, trace: str = "") -> None:
        await self._notice(server, lambda: self._weather.servers[server].close(thread))

    async def _notice(self, server: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await self._ask(server, work)
        except TorporError:
            self._weather.trace(self._process.name, "a notice was not taken")

    async def choose(
        self, server: str, url: str, call: str, selected: int, key: str, trace: str = ""
    ) -> None:
        self._weather.trace(self._process.name, "choose", call, selected)
        await self._ask(server, lambda: self._weather.servers[server].choose(url, call, selected))

    async def status(self, server: str, thread: str, call: str, trace: str = "") -> str:
        return await self._ask(server, lambda: self._weather.servers[server].status(call))

    async def migrate(self, server: str, session: str, destination: str, trace: str = "") -> None:
        await self._ask(server, lambda: self._weather.servers[server].migrate(session, destination))

    async def close(self) -> None:
        """Nothing is held."""
