"""Who may reach a thread: who holds the store's token, and a call's own callback, as far as it goes."""

import hashlib
import json
from typing import Any

import aiohttp
import pytest

from tests.fuzz.wires import digest
from tests.protocol.desk import Desk, event, result, waiting
from tests.web.places import Client, served
from torpor.core.errors import Refused
from torpor.runtime.given import agent_name, idempotency_key, thread_id
from torpor.stores.memory import MemoryStore
from torpor.tools.reading import Reach, read_range
from torpor.tools.tokens import Keys
from torpor.web.access import Access
from torpor.web.routes import ROUTES

GUARDED = [endpoint for endpoint in ROUTES if endpoint.guarded]
BODY = {"agent": "echo", "text": "hi", "value": "yes", "thread": "victim", "at": 0}


def test_all_paths_but_these_are_guarded() -> None:
    assert {endpoint.name for endpoint in ROUTES if not endpoint.guarded} == {
        "callback",
        "health",
        "oauth_callback",
        "oauth_client",
    }


async def test_no_path_is_open_without_the_token() -> None:
    """With no token, a wrong one, a callback's token, and a ticket of another thread."""
    async with served("memory:", workers=0) as (runtime, client), aiohttp.ClientSession() as bare:
        victim, own = await client.start(), await client.start()
        store: Any = runtime.parts.store
        keys = await Keys.open(runtime.parts.side)
        callback = keys.mint(own, "c")
        _, body = await client.ask("POST", "/tickets", json={"thread": own})
        stranger = Client(bare, client.url)
        before = digest(store)
        for endpoint in GUARDED:
            path = endpoint.path.format(thread=victim, wait=f"{victim}.c.choice")
            for headers, query in (
                ({}, ""),
                ({"Authorization": "Bearer wrong"}, ""),
                ({"Authorization": f"Bearer {callback}"}, ""),
                ({"Cookie": f"token={callback}"}, f"?token={callback}&ticket={callback}"),
                ({}, f"?ticket={body['ticket']}" if endpoint.name != "events" else "?ticket=x"),
            ):
                options = {"json": BODY} if endpoint.takes else {}
                status, _ = await stranger.ask(endpoint.method, path + query, headers=headers, **options)
                assert status == 401, (endpoint.name, headers, query)
        assert digest(store) == before
        async with bare.get(f"{client.url}/threads/{victim}/events?ticket={body['ticket']}") as answer:
            assert answer.status == 401, "a ticket of another thread"
        async with bare.get(f"{client.url}/threads/{own}/events?ticket={body['ticket']}") as answer:
            assert answer.status == 401, "a ticket is used up also where it was no good"


@pytest.mark.parametrize(
    "path",
    [
        "/callbacks/../threads",
        "/callbacks/%2e%2e/threads",
        "/healthz/../threads",
        "/oauth/../threads",
        "/oauth/%2e%2e/threads",
        "/healthz%2f..%2fthreads",
        "//threads",
        "/threads/",
        "/THREADS",
        "/threads;/healthz",
        "/threads%00/healthz",
        "/threads?/healthz",
        "/threads#/callbacks/",
    ],
)
async def test_no_spelling_of_a_path_gets_round_the_gate(path: str) -> None:
    async with served("memory:", workers=0) as (_, client):
        await client.start()
        from yarl import URL

        async with aiohttp.ClientSession() as bare, bare.get(URL(client.url + path, encoded=True)) as answer:
            assert answer.status in (400, 401, 403, 404, 405)
            assert b"echo" not in await answer.read()


@pytest.mark.parametrize(
    "body", [result(), event(), {"type": "view_update", "view_type": "v", "content": {}}]
)
async def test_a_callback_reaches_its_own_thread_only(body: dict[str, Any]) -> None:
    desk = await Desk().open()
    await desk.thread("T")
    await desk.thread("mine")
    store: Any = desk.store
    before = digest(store)
    # the token is of `mine`, the body names T
    outcome = await desk.post({**body, "group_id": "T"}, thread="mine")
    assert outcome.status == 403
    assert digest(store) == before


async def test_a_call_of_the_same_id_in_another_thread_is_another_call() -> None:
    desk = await Desk().open()
    await desk.thread("T", pending={"call_1": waiting()})
    await desk.thread("mine", pending={"call_1": waiting()})
    assert (await desk.post({**result(), "group_id": "mine"}, thread="mine")).status == 200
    assert await desk.inbox("T") == []


async def test_results_of_another_thread_are_not_read() -> None:
    store = MemoryStore()
    body = b"secret"
    handle = hashlib.sha256(body).hexdigest()[:32] + "a"
    await store.put_blob("victim", handle, body)
    for name in (handle, "victim.1", "victim/../mine.1", f"../victim/{handle}", f"victim/{handle}"):
        with pytest.raises(Refused, match="no stored result"):
            await read_range(Reach(store, store, "mine"), name, 0, 100)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "..\\x", "C:\\x", "a\x00b", "..", "T/../U"]
)
async def test_names_of_blobs_are_no_paths(name: str) -> None:
    """Blobs are rows: a name is compared whole, and nothing is ever opened by it."""
    store = MemoryStore()
    await store.put_blob("T", name, b"x")
    assert await store.get_blob("T", name) == b"x"
    assert await store.get_blob("U", name) is None
    with pytest.raises(Refused, match="thread id"):
        thread_id(name)


@pytest.mark.parametrize(
    "text", ["a\r\nSet-Cookie: b", "a\nb", "a\rb", "a\x00b", "a\u2028b", "a\x85b", "\u202ea"]
)
def test_line_breaks_are_in_no_id(text: str) -> None:
    for check in (thread_id, agent_name, idempotency_key):
        with pytest.raises(Refused):
            check(text)


async def test_line_breaks_of_an_owner_reach_no_header() -> None:
    async with served("memory:", workers=0) as (_, client):
        owner = "a\r\nSet-Cookie: b=c"
        async with client.session.post(
            f"{client.url}/threads", json={"agent": "echo", "owner": owner}
        ) as answer:
            assert answer.status == 201
            assert "set-cookie" not in {name.lower() for name in answer.headers}
            assert (await answer.json())["owner"] == owner


async def test_owners_that_look_alike_are_others() -> None:
    """Owners are compared letter by letter; nothing is folded, so nobody is taken for somebody else."""
    names = ["admin", "\u0430dmin", "admin ", "Admin", "ad\u200dmin", "\uff41dmin", "a\u0301", "\u00e1"]
    async with served("memory:", workers=0) as (_, client):
        for name in names:
            await client.ask("POST", "/threads", json={"agent": "echo", "owner": name})
        for name in names:
            _, body = await client.ask("GET", "/threads", params={"owner": name})
            assert [one["owner"] for one in body["threads"]] == [name]


def test_a_host_name_that_looks_alike_is_another() -> None:
    access = Access("t" * 20, "https://agents.example")
    for host in ("\u0430gents.example", "agents.example.evil", "agents.example@evil", "agents%2eexample"):
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/threads",
            "query_string": b"",
            "headers": [(b"host", host.encode()), (b"authorization", b"Bearer " + b"t" * 20)],
            "client": ("127.0.0.1", 1),
        }
        problem = access.check(scope)
        assert problem is not None
        assert problem.status == 403


async def test_a_key_that_was_used_says_nothing_of_other_threads() -> None:
    """The same idempotency key with another body is refused, and shows nothing of the first."""
    async with served("memory:", workers=0) as (_, client):
        headers = {"Idempotency-Key": "k"}
        first = {"agent": "echo", "text": "secret words", "owner": "a"}
        await client.ask("POST", "/threads", json=first, headers=headers)
        status, body = await client.ask(
            "POST", "/threads", json={"agent": "echo", "text": "x", "owner": "b"}, headers=headers
        )
        assert status == 409
        assert "secret" not in json.dumps(body)
