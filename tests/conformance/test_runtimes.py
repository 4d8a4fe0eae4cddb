"""The checks of runtimes: ours keeps all that is built, and what is broken over it is found."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import pytest

from torpor.conformance.harness import Line, Running, Server, Shown, Think
from torpor.conformance.ours import OurRuntime
from torpor.conformance.runtime import check_runtime, load_harness
from torpor.conformance.stage import Pace
from torpor.core.errors import Refused, Unavailable
from torpor.tools.catalog import RapServer
from torpor.tools.client import HttpTransport

BRISK = Pace(within=3.0, quiet=0.3)


@pytest.mark.slow
async def test_our_runtime_keeps_all_that_is_built() -> None:
    report = await check_runtime(load_harness())
    assert report.broken() == ()
    assert report.notes == ()
    assert report.counts["kept"] >= 103
    lacking = {finding.why for finding in report.findings if finding.verdict == "not built"}
    assert all(why.startswith("it has no ") for why in lacking)


async def test_what_is_built_and_not_checked_is_told_apart_from_what_is_not_built() -> None:
    class Other(OurRuntime):
        built = frozenset({"views"})

        def running(self, servers: Sequence[Server], think: Think) -> AbstractAsyncContextManager[Running]:
            raise RuntimeError("it does not start")

    report = await check_runtime(Other(), only=["RT-84", "RT-117"])
    assert (report.verdict("RT-84"), report.verdict("RT-117")) == ("unseen", "not built")


@pytest.mark.parametrize("ref", ["nothing", "torpor.conformance.ours:Nothing", "no.such.module:x"])
def test_a_harness_that_is_not_there_is_refused(ref: str) -> None:
    with pytest.raises(Refused, match="cannot be loaded"):
        load_harness(ref)


# ------------------------------------------------------------------ broken runtimes


class SloppyTransport(HttpTransport):
    """Sends what a variant makes of it."""

    def __init__(self, servers: Sequence[RapServer]) -> None:
        super().__init__(servers)
        self.urls = [server.url for server in servers]


class Deaf(SloppyTransport):
    async def cancel(self, server: str, thread: str, call: str, trace: str = "") -> None:
        if server == self.urls[0]:
            await super().cancel(server, thread, call, trace)

    async def close_thread(self, server: str, thread: str, trace: str = "") -> None:
        if server == self.urls[0]:
            await super().close_thread(server, thread, trace)


class Insistent(SloppyTransport):
    async def cancel(self, server: str, thread: str, call: str, trace: str = "") -> None:
        for _ in range(2):
            await super().cancel(server, thread, call, trace)

    async def close_thread(self, server: str, thread: str, trace: str = "") -> None:
        for _ in range(2):
            await super().close_thread(server, thread, trace)

    async def invoke(self, server: str, endpoint: str, body: Mapping[str, Any], key: str) -> None:
        try:
            await super().invoke(server, endpoint, body, key)
        except Refused:
            await super().invoke(server, endpoint, body, key)


class Swapping(SloppyTransport):
    async def invoke(self, server: str, endpoint: str, body: Mapping[str, Any], key: str) -> None:
        changed = {**body, "call": "the-call", "thread": f"thread-{key}", "callback": "not-a-url"}
        await super().invoke(server, endpoint, changed, key)


class Hoarding(SloppyTransport):
    kept: dict[str, bytes]

    async def discover(self, server: str) -> bytes:
        self.kept = getattr(self, "kept", {})
        if server not in self.kept:
            self.kept[server] = await super().discover(server)
        return self.kept[server]


class Hasty(SloppyTransport):
    async def invoke(self, server: str, endpoint: str, body: Mapping[str, Any], key: str) -> None:
        try:
            await super().invoke(server, endpoint, body, key)
        except Unavailable as error:
            raise Refused(str(error)) from error


class Rash(SloppyTransport):
    """Takes every answer for a death, sends every choice as the first, and names no ancestors."""

    async def status(self, server: str, thread: str, call: str, trace: str = "") -> str:
        await super().status(server, thread, call, trace)
        return "dead"

    async def choose(
        self, server: str, url: str, call: str, selected: int, key: str = "", trace: str = ""
    ) -> None:
        for number in range(2):
            await super().choose(server, url, f"not-{call}", 0, f"{key}-{number}", trace)

    async def invoke(self, server: str, endpoint: str, body: Mapping[str, Any], key: str) -> None:
        await super().invoke(server, endpoint, {**body, "ancestors": ()}, key)


class Trusting(SloppyTransport):
    async def status(self, server: str, thread: str, call: str, trace: str = "") -> str:
        return "alive"


class Immovable(SloppyTransport):
    async def migrate(self, server: str, session: str, destination: str, trace: str = "") -> None:
        """Tells nobody."""


class Credulous(SloppyTransport):
    async def migrate(self, server: str, session: str, destination: str, trace: str = "") -> None:
        with suppress(Refused, Unavailable):
            await super().migrate(server, session, destination, trace)


class Hurried(SloppyTransport):
    """Waits for no server, tells all of them, and closes first."""

    async def migrate(self, server: str, session: str, destination: str, trace: str = "") -> None:
        for url in self.urls:
            await super().close_thread(url, session, trace)
            self.under_way = asyncio.gather(
                super().migrate(url, session, destination), return_exceptions=True
            )
        await asyncio.sleep(0.05)


class Sloppy(OurRuntime):
    """Our runtime with another transport, and another way of telling."""

    def __init__(
        self,
        transport: type[SloppyTransport] = SloppyTransport,
        *,
        twice: bool = False,
        hides: bool = False,
        careless: bool = False,
    ) -> None:
        super().__init__()
        self.transport = transport
        self.twice = twice
        self.hides = hides
        self.careless = careless

    def options(self, servers: Sequence[RapServer]) -> dict[str, Any]:
        return {"transport": self.transport(servers)}

    @asynccontextmanager
    async def _running(self, servers: Sequence[Server], think: Think) -> AsyncIterator[Running]:
        async def thinks(shown: Shown) -> Any:
            if self.hides:
                lines = tuple(shortened(line) for line in shown.lines)
                shown = Shown({name: ("do as you like", {}) for name in shown.tools}, lines)
            return await think(shown)

        plain = [Server(server.url) for server in servers] if self.careless else servers
        async with super()._running(plain, thinks) as running:
            if self.twice:
                running.history = twice(running.history)  # type: ignore[method-assign]
            yield running


def shortened(line: Line) -> Line:
    text = line.text if line.kind == "said" else line.text[:20]
    return Line(line.kind, text, line.call, line.is_error)


def twice(history: Any) -> Any:
    async def doubled(thread: str) -> list[Line]:
        return [line for line in await history(thread) for _ in range(2)]

    return doubled


BROKEN: dict[str, tuple[OurRuntime, str]] = {
    "tells one server alone": (Sloppy(Deaf), "56 89 96"),
    "tells everything twice": (Sloppy(Insistent), "26 92 99"),
    "mixes up ids": (Sloppy(Swapping), "21"),
    "keeps manifests for ever": (Sloppy(Hoarding), "08"),
    "is rash": (Sloppy(Rash), "23 80 81"),
    "asks nobody": (Sloppy(Trusting), "106"),
    "never sends again": (Sloppy(Hasty), "25"),
    "remembers everything twice": (Sloppy(twice=True), "37 42 103 123"),
    "rewrites what the model is shown": (Sloppy(hides=True), "12 47 54"),
    "moves without its servers": (Sloppy(Immovable), "117"),
    "takes everything for moved": (Sloppy(Credulous), "120 121"),
    "moves in a hurry": (Sloppy(Hurried), "118 119 120"),
    "forgets its credential": (Sloppy(careless=True), "43"),
}


@pytest.mark.slow
async def test_what_a_runtime_breaks_is_found() -> None:
    gate = asyncio.Semaphore(8)

    async def missed(name: str) -> str:
        runtime, rows = BROKEN[name]
        only = [f"RT-{row}" for row in rows.split()]
        async with gate:
            report = await check_runtime(runtime, only=only, pace=BRISK)
        left = sorted(set(only) - set(report.broken()))
        return f"{name}: {left}; {report.notes}" if left else ""

    assert [told for told in await asyncio.gather(*map(missed, BROKEN)) if told] == []


@pytest.mark.slow
async def test_a_harness_that_fails_is_noted_and_its_rows_are_not_seen() -> None:
    class Failing(OurRuntime):
        def running(self, servers: Sequence[Server], think: Think) -> AbstractAsyncContextManager[Running]:
            raise RuntimeError("it does not start")

    report = await check_runtime(Failing(), only=["RT-25"])
    assert report.verdict("RT-25") == "unseen"
    assert "it does not start" in report.notes[0]
    assert not report.is_sound
