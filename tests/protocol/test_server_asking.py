"""Tools that ask people: a choice or an authorization, waited for and settled once."""

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from tests.protocol.stubs import Peer, StubRuntime, eventually, stub_runtime, talking
from torpor.conformance.probe import Call, Patience
from torpor.conformance.server import Options, check_server
from torpor.tools.server import Chosen, Retry, ToolCall, ToolServer

FAST = Retry(first=0.02, longest=0.1)
EXTENDED: dict[str, Any] = {"features": ["rap-ext/1"]}
CHOICES = ["once", "always", "no"]
AUTH = "https://id.depot.test/authorize?client_id=ops"


class Asking:
    """A server whose tools ask people, and what they were told."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.server = ToolServer("asking", outbox=path / "o.db", retry=FAST, grace=0.5, **options)
        self.told: list[Any] = []
        self.calls: list[ToolCall] = []
        self.expires = 60.0
        self.prompt = "Reorder?"
        self.server.tool(timeout=0.15)(self.reorder)
        self.server.tool(restartable=True)(self.again)
        self.server.tool(read_only=True)(self.twice)
        self.server.tool(requires_auth="depot")(self.orders)
        self.server.tool(self.late)

    async def reorder(self, call: ToolCall) -> str:
        """Ask, and reorder."""
        chosen = await call.choose(self.prompt, CHOICES, default=2, expires=self.expires)
        self.told.append(chosen)
        return f"{chosen.index} {chosen.text}"

    async def again(self, call: ToolCall) -> str:
        """As reorder, and after a restart it runs again."""
        return await self.reorder(call)

    async def twice(self, call: ToolCall) -> str:
        """Ask two questions at a time."""
        both = await asyncio.gather(call.choose("A?", ["a", "b"]), call.choose("C?", ["c", "d"]))
        return " ".join(chosen.text for chosen in both)

    async def orders(self, call: ToolCall, url: str = AUTH) -> str:
        """Need authorization."""
        self.calls.append(call)
        await call.authorize(url, expires=self.expires)
        return "3 open orders"

    async def late(self, call: ToolCall) -> str:
        """Ask when it is too late."""
        await call.subscribe("Watching.")
        try:
            await call.choose("?", ["a"])
        except RuntimeError as error:
            return str(error)
        return "asked"


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    return Asking(tmp_path)


async def asked(stub: StubRuntime, number: int = 1) -> list[dict[str, Any]]:
    """Wait for so many questions."""

    def questions() -> list[dict[str, Any]]:
        return [one.body for one in stub.received if one.body["type"] in ("user_choice", "oauth")]

    await stub.until(lambda _: len(questions()) >= number)
    return questions()


async def settled(stub: StubRuntime, ident: str) -> dict[str, Any]:
    """Wait for the result of a call."""

    def results() -> list[dict[str, Any]]:
        bodies = [one.body for one in stub.received]
        return [body for body in bodies if body["type"] == "tool_result" and body["id"] == ident]

    await stub.until(lambda _: bool(results()))
    return results()[-1]


async def select(peer: Peer, question: dict[str, Any], selected: Any, ident: str | None = None) -> int:
    body = {"id": question["id"] if ident is None else ident, "selected": selected}
    status, answer = await peer.post(question["response_url"].removeprefix(peer.base), body)
    assert answer == b"" or status != 200
    return status


async def test_a_person_is_asked_and_the_answer_comes_back(asking: Asking) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("reorder", call_id="p-1")
        [question] = await asked(stub)
        assert {name: question[name] for name in ("type", "group_id", "id", "call_id")} == {
            "type": "user_choice",
            "group_id": "th-1",
            "id": "c-1",
            "call_id": "p-1",
        }
        assert (question["prompt"], question["choices"], question["default"]) == ("Reorder?", CHOICES, 2)
        assert question["response_url"].startswith(f"{peer.base}/user_choice_response/")
        assert len(question["response_url"].rpartition("/")[2]) == 32
        left = datetime.fromisoformat(question["expires_at"]) - datetime.now(UTC)
        assert timedelta(seconds=50) < left <= timedelta(seconds=60)
        assert question["event_id"]
        assert datetime.fromisoformat(question["occurred_at"]) <= datetime.now(UTC)
        assert asking.told == []
        assert await peer.alive("c-1")
        assert await select(peer, question, 1) == 200
        assert (await settled(stub, "c-1"))["text"] == "1 always"
        assert asking.told == [Chosen(1, "always")]


async def test_the_time_of_the_person_is_not_the_time_of_the_tool(asking: Asking) -> None:
    """The tool may work for 0.15 s; the person takes longer."""
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("reorder")
        [question] = await asked(stub)
        await asyncio.sleep(0.25)
        await select(peer, question, 0)
        assert (await settled(stub, "c-1"))["text"] == "0 once"


async def test_a_tool_that_is_answered_has_the_rest_of_its_time(tmp_path: Path) -> None:
    server = ToolServer("slow", outbox=tmp_path / "o.db", retry=FAST)

    @server.tool(timeout=0.1)
    async def slow(call: ToolCall) -> str:
        """Ask, and hang."""
        await call.choose("Go on?", ["yes"])
        await asyncio.Event().wait()
        return "never"

    async with talking(server) as (peer, stub):
        await peer.invoke("slow")
        [question] = await asked(stub)
        await select(peer, question, 0)
        assert (await settled(stub, "c-1"))["text"].startswith("Error: timed out after 0.1 s")


@pytest.mark.parametrize("selected", [-1, 3, 99, "0", True, 0.5, None, [0]])
async def test_what_is_no_choice_ends_in_an_error(asking: Asking, selected: Any) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("reorder")
        [question] = await asked(stub)
        assert await select(peer, question, selected) == 200
        result = await settled(stub, "c-1")
        assert result["is_error"] is True
        assert "not one of the choices" in result["text"]
        assert asking.told == []


async def test_g_14_answers_to_unknown_and_settled_questions_have_no_effect(asking: Asking) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("reorder")
        [question] = await asked(stub)
        unknown = {**question, "response_url": f"{peer.base}/user_choice_response/{'x' * 32}"}
        assert await select(peer, unknown, 0) == 200
        assert await select(peer, question, 0, ident="c-2") == 200
        assert await peer.alive("c-1")
        assert await select(peer, question, 1) == 200
        await settled(stub, "c-1")
        assert await select(peer, question, 0) == 200
        assert asking.told == [Chosen(1, "always")]
        await peer.invoke("reorder", ident="c-2")
        await asked(stub, 2)
        assert len([one for one in stub.received if one.body["type"] == "tool_result"]) == 1


async def test_a_malformed_answer_is_refused_and_the_question_stays(asking: Asking) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("reorder")
        [question] = await asked(stub)
        path = question["response_url"].removeprefix(peer.base)
        for body in (b"", b"[]", b"{", b'{"selected": 0}', b'{"id": 7, "selected": 0}'):
            assert (await peer.post(path, body))[0] == 400
        assert await peer.alive("c-1")
        await select(peer, question, 0)
        assert (await settled(stub, "c-1"))["text"] == "0 once"


async def test_without_the_servers_token_nobody_answers(tmp_path: Path) -> None:
    asking = Asking(tmp_path, token="sesame")
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("reorder")
        [question] = await asked(stub)
        stranger = Peer(peer.base, peer.http, peer.callback_url)
        assert await select(stranger, question, 0) == 401
        await select(peer, question, 2)
        assert (await settled(stub, "c-1"))["text"] == "2 no"


async def test_when_the_time_is_over_the_default_counts(asking: Asking) -> None:
    asking.expires = 0.03
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("reorder")
        assert (await settled(stub, "c-1"))["text"] == "2 no"
        assert asking.told == [Chosen(2, "no", expired=True)]
        for question in await asked(stub, 0):
            assert await select(peer, question, 0) == 200
        assert asking.told == [Chosen(2, "no", expired=True)]


async def test_a_wait_ends_before_the_deadline_of_its_call(asking: Asking) -> None:
    async with talking(asking.server) as (peer, stub):
        soon = datetime.now(UTC) + timedelta(seconds=2.05)
        await peer.invoke("reorder", deadline=soon.isoformat())
        assert (await settled(stub, "c-1"))["text"] == "2 no"
        assert asking.told == [Chosen(2, "no", expired=True)]


async def test_a_cancelled_call_waits_no_more(asking: Asking) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("reorder")
        [question] = await asked(stub)
        assert await peer.cancel("c-1") == (200, b"")
        assert await select(peer, question, 1) == 200
        assert (await settled(stub, "c-1"))["text"] == "Error: cancelled"
        assert asking.told == []
        assert not await peer.alive("c-1")


async def test_a_question_that_is_retried_is_withdrawn_with_its_call(asking: Asking) -> None:
    async with talking(asking.server, otherwise=503) as (peer, stub):
        await peer.invoke("reorder")
        await asked(stub, 2)
        await peer.cancel("c-1")
        await settled(stub, "c-1")
        asked_before = len(await asked(stub))
        stub.otherwise = 200
        await eventually(lambda: stub.received[-1].body["type"] == "tool_result")
        await peer.invoke("late", ident="c-2")
        await settled(stub, "c-2")
        assert len(await asked(stub)) <= asked_before + 1
        assert len({one["event_id"] for one in await asked(stub)}) == 1


async def test_a_refused_question_is_an_error_at_once(asking: Asking) -> None:
    async with talking(asking.server, script=[400]) as (peer, stub):
        await peer.invoke("reorder")
        assert "nobody can be asked here" in (await settled(stub, "c-1"))["text"]
        assert asking.told == []


async def test_one_call_may_ask_twice_where_the_runtime_can_tell_them_apart(asking: Asking) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("twice", **EXTENDED)
        questions = await asked(stub, 2)
        assert len({one["event_id"] for one in questions}) == 2
        for question in questions:
            await select(peer, question, 1)
        assert (await settled(stub, "c-1"))["text"] == "b d"


async def test_one_call_asks_once_where_a_second_question_may_vanish(asking: Asking) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("twice")
        assert "one question a call" in (await settled(stub, "c-1"))["text"]


async def test_nobody_is_asked_after_a_subscription_has_begun(asking: Asking) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("late")
        event = (await stub.count(2))[1]
        assert event["text"].startswith("ask people before subscribe()")


@pytest.mark.parametrize(
    ("choices", "default"), [([], 0), (["a"], 1), (["a"], -1), (["a", ""], 0), ("ab", 0)]
)
async def test_choices_that_cannot_be_asked_are_a_mistake(
    tmp_path: Path, choices: list[str], default: int
) -> None:
    server = ToolServer("wrong", outbox=tmp_path / "o.db")

    @server.tool
    async def wrong(call: ToolCall) -> None:
        """Ask what cannot be asked."""
        await call.choose("?", choices, default=default)

    async with talking(server) as (peer, stub):
        await peer.invoke("wrong")
        assert (await settled(stub, "c-1"))["is_error"] is True
        assert len(stub.received) == 1


async def test_an_authorization_is_asked_for_and_the_call_goes_on_when_it_is_done(asking: Asking) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("orders")
        [question] = await asked(stub)
        assert question["type"] == "oauth"
        assert question["auth_url"].startswith(f"{AUTH}&state=")
        assert "expires_at" in question
        [state] = parse_qs(urlsplit(question["auth_url"]).query)["state"]
        assert asking.server.waiting("another") is None
        assert asking.server.waiting(state) is asking.calls[0]
        assert await asking.server.authorized("another") is False
        assert await asking.server.authorized(state) is True
        assert await asking.server.authorized(state) is False
        assert (await settled(stub, "c-1"))["text"] == "3 open orders"
        assert asking.server.waiting(state) is None


async def test_a_state_of_the_author_is_kept_and_the_call_itself_names_it(asking: Asking) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("orders", {"url": f"{AUTH}&state=mine"})
        assert (await asked(stub))[0]["auth_url"] == f"{AUTH}&state=mine"
        assert await asking.server.authorized(asking.calls[0])
        assert (await settled(stub, "c-1"))["text"] == "3 open orders"
        assert await asking.server.authorized(asking.calls[0]) is False


async def test_an_authorization_that_fails_is_an_error(asking: Asking) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("orders")
        await asked(stub)
        await asking.server.authorized(asking.calls[0], problem="access to depot.test was denied")
        assert (await settled(stub, "c-1"))["text"] == "Error: access to depot.test was denied"


async def test_an_authorization_is_not_waited_for_for_ever(asking: Asking) -> None:
    asking.expires = 0.03
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("orders")
        result = await settled(stub, "c-1")
        assert "nobody has authorized this in time" in result["text"]
        assert result["is_error"] is True


async def test_a_choice_is_not_settled_by_an_authorization(asking: Asking) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("reorder")
        [question] = await asked(stub)
        token = question["response_url"].rpartition("/")[2]
        assert await asking.server.authorized(token) is False
        await select(peer, question, 0)
        assert (await settled(stub, "c-1"))["text"] == "0 once"


@pytest.mark.parametrize("url", ["http://id.depot.test/a", "ftp://x", "/a", "", "https://x y"])
async def test_g_12_only_https_is_opened(asking: Asking, url: str) -> None:
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("orders", {"url": url})
        assert "must be an absolute https URL" in (await settled(stub, "c-1"))["text"]
        assert len(stub.received) == 1


async def test_a_server_that_does_not_run_has_nobody_waiting(asking: Asking) -> None:
    assert asking.server.waiting("x") is None
    assert await asking.server.authorized("x") is False


@asynccontextmanager
async def restarting(path: Path) -> AsyncIterator[tuple[StubRuntime, aiohttp.ClientSession]]:
    """What outlives the servers of a test."""
    async with stub_runtime() as stub, aiohttp.ClientSession() as http:
        yield stub, http


async def test_after_a_restart_a_question_stands_and_its_answer_counts(tmp_path: Path) -> None:
    async with restarting(tmp_path) as (stub, http):
        first = Asking(tmp_path)
        async with first.server.listening() as url:
            peer = Peer(url, http, stub.url)
            await peer.invoke("again")
            [question] = await asked(stub)
        second = Asking(tmp_path)
        async with second.server.listening() as url:
            peer = Peer(url, http, stub.url)
            path = urlsplit(question["response_url"]).path
            assert (await peer.post(path, {"id": "c-1", "selected": 1}))[0] == 200
            assert (await settled(stub, "c-1"))["text"] == "1 always"
            assert len(await asked(stub)) == 1
            assert second.told == [Chosen(1, "always")]
            assert first.told == []


async def test_after_a_restart_an_answer_that_was_given_is_not_asked_for_again(tmp_path: Path) -> None:
    asking = Asking(tmp_path)
    came = asyncio.Event()
    server = ToolServer("gone", outbox=tmp_path / "o.db", retry=FAST, grace=0.1)

    @server.tool(restartable=True)
    async def again(call: ToolCall) -> str:
        """Ask, and hang."""
        await call.choose(asking.prompt, CHOICES, default=2)
        came.set()
        await asyncio.Event().wait()
        return "never"

    async with restarting(tmp_path) as (stub, http):
        async with server.listening() as url:
            peer = Peer(url, http, stub.url)
            await peer.invoke("again")
            [question] = await asked(stub)
            await select(peer, question, 1)
            await asyncio.wait_for(came.wait(), 5)
        async with asking.server.listening():
            assert (await settled(stub, "c-1"))["text"] == "1 always"
            assert len(await asked(stub)) == 1


async def test_after_a_restart_another_question_takes_the_place_of_the_first(tmp_path: Path) -> None:
    async with restarting(tmp_path) as (stub, http):
        async with Asking(tmp_path).server.listening() as url:
            peer = Peer(url, http, stub.url)
            await peer.invoke("again")
            [before] = await asked(stub)
        second = Asking(tmp_path)
        second.prompt = "Reorder from the south?"
        async with second.server.listening() as url:
            peer = Peer(url, http, stub.url)
            now = (await asked(stub, 2))[1]
            assert now["event_id"] != before["event_id"]
            old = urlsplit(before["response_url"]).path
            assert (await peer.post(old, {"id": "c-1", "selected": 0}))[0] == 200
            new = urlsplit(now["response_url"]).path
            await peer.post(new, {"id": "c-1", "selected": 1})
            assert (await settled(stub, "c-1"))["text"] == "1 always"
            assert second.told == [Chosen(1, "always")]


async def test_after_a_restart_a_tool_that_may_not_run_again_ends_with_its_question(
    tmp_path: Path,
) -> None:
    async with restarting(tmp_path) as (stub, http):
        async with Asking(tmp_path).server.listening() as url:
            peer = Peer(url, http, stub.url)
            await peer.invoke("reorder")
            [question] = await asked(stub)
        assert (await settled(stub, "c-1"))["text"].startswith("Error: the tool server stopped")
        second = Asking(tmp_path)
        async with second.server.listening() as url:
            path = urlsplit(question["response_url"]).path
            peer = Peer(url, http, stub.url)
            assert (await peer.post(path, {"id": "c-1", "selected": 0}))[0] == 200
        assert second.told == []
        assert [one.body["type"] for one in stub.received] == ["user_choice", "tool_result"]


CHECKED = frozenset({"TS-15", "TS-66", "TS-67", "TS-68", *(f"TS-{row}" for row in (78, 79, 80, 81, 83, 85))})


@pytest.mark.slow
async def test_what_can_be_checked_of_asking_is_kept(tmp_path: Path) -> None:
    asking = Asking(tmp_path, token="sesame")
    calls = {"choosing": Call("reorder"), "authorizing": Call("orders")}
    async with asking.server.listening() as url:
        options = Options(token="sesame", only=CHECKED, calls=calls, patience=Patience(quiet=0.1))
        report = await check_server(url, options)
    assert report.broken() == ()
    assert {row for row in CHECKED if report.verdict(row) == "kept"} == CHECKED


async def test_questions_are_forgotten_with_their_calls(tmp_path: Path) -> None:
    asking = Asking(tmp_path, keep=0.0)
    asking.expires = 0.01
    async with talking(asking.server) as (peer, stub):
        await peer.invoke("reorder")
        await settled(stub, "c-1")
        await eventually(lambda: gone(peer))
    async with asking.server.listening():
        pass  # it prunes when it starts
    with closing(sqlite3.connect(tmp_path / "o.db")) as db:
        assert db.execute("SELECT count(*) FROM questions").fetchone() == (0,)


async def gone(peer: Peer) -> bool:
    return not await peer.alive("c-1")


OLD = """
CREATE TABLE callbacks (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, call INTEGER,
    kind TEXT NOT NULL CHECK (kind IN ('result', 'again', 'confirmation', 'event', 'final')),
    url TEXT NOT NULL, private INTEGER NOT NULL, body BLOB NOT NULL, attempt INTEGER NOT NULL DEFAULT 0,
    not_before REAL NOT NULL, give_up_at REAL NOT NULL
);
"""


async def test_an_outbox_of_an_earlier_version_is_taken_over(tmp_path: Path) -> None:
    """What it owed is still sent, in order."""
    async with restarting(tmp_path) as (stub, http):
        asking = Asking(tmp_path)
        async with asking.server.listening():
            pass
        with closing(sqlite3.connect(tmp_path / "o.db")) as db, db:
            db.executescript("DROP TABLE callbacks; DROP TABLE questions; DROP TABLE views;" + OLD)
            body = json.dumps({"type": "tool_result", "group_id": "th-1", "id": "old", "text": "x"})
            for call, kind in ((7, "confirmation"), (7, "event"), (None, "again")):
                db.execute(
                    "INSERT INTO callbacks (call, kind, url, private, body, not_before, give_up_at)"
                    " VALUES (?, ?, ?, 1, ?, 0, ?)",
                    (call, kind, stub.url, body.encode(), time.time() + 60),
                )
            db.execute("PRAGMA user_version = 1")
        async with Asking(tmp_path).server.listening() as url:
            await stub.count(3)
            await Peer(url, http, stub.url).invoke("reorder")
            await asked(stub)
