"""The checks of tool servers: ours and a good one keep everything, and each break of sixty is found."""

import asyncio
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest

from tests.conformance.broken_servers import BROKEN
from tests.conformance.good_server import TOKEN, GoodServer, serving
from torpor.conformance.ledger import Report
from torpor.conformance.probe import Call, Patience
from torpor.conformance.server import Options, check_server
from torpor.core.errors import Refused
from torpor.tools.server import ToolError, ToolServer

BRISK = Patience(answer=4.0, ack=1.0, settle=1.0, result=2.0, retry=1.5, quiet=0.4)
CALLS = {
    "quick": Call("echo", {"words": "hello"}),
    "long": Call("slow"),
    "subscribing": Call("watch"),
    "choosing": Call("pick"),
    "authorizing": Call("login"),
}
AT_ONCE = 16
NAMES = sorted(BROKEN)
PARTS = [NAMES[part::4] for part in range(4)]


async def check(server: GoodServer, rows: str = "", calls: Mapping[str, Call] = CALLS) -> Report:
    only = frozenset(f"TS-{row}" for row in rows.split())
    async with serving(server) as url:
        return await check_server(url, Options(token=TOKEN, only=only, calls=calls, patience=BRISK))


@pytest.mark.slow
async def test_a_good_server_keeps_all_that_can_be_seen() -> None:
    report = await check(GoodServer())
    assert report.broken() == ()
    assert report.counts["kept"] >= 75
    assert report.is_sound
    assert report.notes


@pytest.mark.slow
@pytest.mark.parametrize("names", PARTS, ids=["first", "second", "third", "fourth"])
async def test_each_break_is_found(names: list[str]) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def missed(name: str) -> str:
        server, rows = BROKEN[name]
        async with gate:
            report = await check(server(), rows)
        found = set(report.broken())
        shown = all(report.of(row).why for row in found)
        left = {f"TS-{row}" for row in rows.split()} - found
        return f"{name}: {sorted(left)} of {report}" if left or not shown else ""

    assert [told for told in await asyncio.gather(*map(missed, names)) if told] == []


def test_there_are_many_breaks_of_many_kinds() -> None:
    rows = {row for _, rows in BROKEN.values() for row in rows.split()}
    assert len(BROKEN) >= 60
    assert len(rows) >= 55


@pytest.mark.slow
async def test_what_tools_are_good_for_is_found_by_trying_those_that_only_read() -> None:
    server = GoodServer()
    report = await check(server, "21 56 79", calls={})
    assert report.broken() == ()
    assert {report.verdict(row) for row in ("TS-21", "TS-56", "TS-79")} == {"kept"}
    assert not any("login" in note for note in report.notes)


async def test_a_server_that_offers_nothing_harmless_is_hardly_tried() -> None:
    class Shy(GoodServer):
        tools = tuple({**one, "annotations": {}} for one in GoodServer.tools)

        async def work(self, body: dict[str, object]) -> None:
            assert not any(one["name"] == body["operation"] for one in self.tools)
            await super().work(body)

    report = await check(Shy(), "01 21 24 35 48 62", calls={})
    assert report.verdict("TS-24") == "kept"
    for row in ("TS-21", "TS-35", "TS-48", "TS-62"):
        assert report.verdict(row) == "unseen"
        assert "no tool is known" in report.of(row).why


async def test_a_broken_row_shows_the_exchange_without_the_credential() -> None:
    server, rows = BROKEN["KnownThreadsOnly"]
    finding = (await check(server(), rows)).of("TS-96")
    assert finding.is_grave
    assert "410" in finding.why
    assert "/close_thread" in finding.exchanges[0].sent
    assert finding.exchanges[0].answered.startswith("410")
    assert TOKEN not in str(finding)


async def test_a_credential_that_is_said_back_is_not_shown() -> None:
    server, rows = BROKEN["Blabs"]
    finding = (await check(server(), rows)).of("TS-44")
    assert finding.verdict == "broken"
    assert "[credential]" in str(finding.exchanges)
    assert TOKEN not in str(finding)


async def test_the_milder_half_of_a_rule_is_not_a_must() -> None:
    server, rows = BROKEN["Chatty"]
    report = await check(server(), rows)
    assert (report.of("TS-99").level, report.of("TS-99").verdict) == ("SHOULD", "broken")
    assert not report.of("TS-99").is_grave


async def test_nobody_there_is_told_row_by_row() -> None:
    report = await check_server("http://127.0.0.1:9", Options(patience=BRISK))
    assert report.broken() == ("TS-01", "TS-03")
    assert not report.is_sound


@pytest.mark.parametrize(
    ("url", "options", "told"),
    [
        ("ftp://127.0.0.1", Options(), "http"),
        ("http://127.0.0.1:9", Options(only=frozenset({"TS-999"})), "TS-999"),
        ("http://127.0.0.1:9", Options(listen="nowhere"), "nowhere"),
    ],
)
async def test_what_cannot_be_done_is_refused(url: str, options: Options, told: str) -> None:
    with pytest.raises(Refused, match=told):
        await check_server(url, options)


async def test_a_tool_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match="no tool 'nothing'"):
        await check(GoodServer(), "21", calls={"quick": Call("nothing")})


async def test_a_server_of_our_kit_moves_sessions_by_the_rules() -> None:
    server = ToolServer("notes", outbox=":memory:", token=TOKEN)

    @server.tool(read_only=True)
    async def echo(words: str) -> str:
        """Say it again."""
        return words

    @server.migrate
    async def move(session: str, destination: str) -> None:
        async with aiohttp.ClientSession() as http, http.put(f"{destination}/notes/{session}") as answer:
            if answer.status != 200:
                raise ToolError(f"the destination answered {answer.status}")

    only = frozenset({"TS-06", "TS-121", "TS-122", "TS-123", "TS-124"})
    async with server.listening() as url:
        calls = {"quick": CALLS["quick"]}
        report = await check_server(url, Options(token=TOKEN, only=only, calls=calls, patience=BRISK))
    assert {report.verdict(row) for row in only} == {"kept"}


@pytest.mark.slow
async def test_our_example_server_keeps_all_that_can_be_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples" / "tools"))
    root = tmp_path / "root"
    root.mkdir()
    server = importlib.import_module("server").build(root, outbox=tmp_path / "o.db", token=TOKEN)
    counting = "for n in 1 2 3 4 5 6; do echo $n; sleep 0.2; done"
    calls = {
        "quick": Call("run_command", {"command": "echo hello"}),
        "long": Call("run_command", {"command": "sleep 60", "patience": 90}),
        "subscribing": Call("run_command", {"command": ["sh", "-c", counting], "patience": 0}),
    }
    patience = Patience(retry=5.0, quiet=1.0)
    async with server.listening() as url:
        report = await check_server(url, Options(token=TOKEN, calls=calls, patience=patience))
    sys.modules.pop("server", None)
    assert report.broken() == ()
    assert report.counts["kept"] >= 60
    assert report.verdict("TS-61") == report.verdict("TS-62") == report.verdict("TS-111") == "kept"
