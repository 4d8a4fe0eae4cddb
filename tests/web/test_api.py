"""The API over real HTTP: a thread's whole life, repeats, pages, and what is refused."""

import asyncio
import io
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.web.places import Client, echo, served, store_of, until
from torpor.core.views import View, views_space
from torpor.ports import Row

STORES = pytest.mark.parametrize("kind", ["memory", "sqlite"])
UNKNOWN_PATHS = [
    ("GET", ""), ("GET", "/messages"), ("GET", "/events"), ("GET", "/explain"), ("GET", "/records"),
    ("GET", "/children"), ("GET", "/views"), ("GET", "/waits"),
    ("POST", "/stop"), ("POST", "/nudge"), ("POST", "/compact"), ("POST", "/close"),
]  # fmt: skip


@STORES
async def test_a_life(kind: str, tmp_path: Path) -> None:
    async with served(store_of(kind, tmp_path)) as (_, client):
        thread = await client.start("one")
        messages = await client.settled(thread)
        assert [message["type"] for message in messages] == ["noted", "said", "turn"]
        assert [message["position"] for message in messages] == [1, 2, 3]
        assert messages[1]["by"] == {"kind": "person", "verified": "token"}
        assert messages[2]["text"] == "echo one"

        status, receipt = await client.ask("POST", f"/threads/{thread}/messages", json={"text": "two"})
        assert (status, receipt["mode"], receipt["repeat"]) == (202, "steer", False)
        assert (await client.settled(thread, 2))[-1]["text"] == "echo two"

        _, found = await client.ask("GET", f"/threads/{thread}")
        assert (found["id"], found["agent"], found["state"], found["length"]) == (thread, "echo", "open", 5)
        assert found["explanation"]["waits"] == []
        _, explanation = await client.ask("GET", f"/threads/{thread}/explain")
        assert explanation == found["explanation"]
        _, listed = await client.ask("GET", "/threads")
        assert [row["id"] for row in listed["threads"]] == [thread]
        _, records = await client.ask("GET", f"/threads/{thread}/records")
        assert [record["version"] for record in records["records"]] == [0, 1]

        assert await client.ask("POST", f"/threads/{thread}/close") == (
            202,
            {"thread": thread, "command": "close"},
        )

        async def closed() -> bool:
            return (await client.ask("GET", f"/threads/{thread}"))[1]["state"] == "closed"  # type: ignore[no-any-return]

        await until(closed)
        status, body = await client.ask("POST", f"/threads/{thread}/messages", json={"text": "three"})
        assert (status, body["error"]["type"]) == (409, "refused")


async def test_a_summary_is_asked_for() -> None:
    async with served("memory:") as (runtime, client):
        thread = await client.start("one")
        await client.settled(thread)
        done = await client.ask("POST", f"/threads/{thread}/compact")
        assert done == (202, {"thread": thread, "command": "compact"})

        async def absorbed() -> bool:
            records = await runtime.thread(thread).records()
            return any(id.startswith("compact/") for record in records for id in record.woken_by)

        await until(absorbed)
        await client.ask("POST", f"/threads/{thread}/close")

        async def closed() -> bool:
            return (await runtime.thread(thread).row()).state == "closed"

        await until(closed)
        assert (await client.ask("POST", f"/threads/{thread}/compact"))[0] == 409


@STORES
async def test_stop_and_nudge(kind: str, tmp_path: Path) -> None:
    async with served(store_of(kind, tmp_path)) as (_, client):
        thread = await client.start()
        await client.settled(thread)

        async def state(wanted: str) -> None:
            async def is_so() -> bool:
                return (await client.ask("GET", f"/threads/{thread}"))[1]["state"] == wanted  # type: ignore[no-any-return]

            await until(is_so)

        await client.ask("POST", f"/threads/{thread}/stop")
        await state("stopped")
        await client.ask("POST", f"/threads/{thread}/nudge")
        await state("open")


@STORES
async def test_the_same_key_starts_one_thread(kind: str, tmp_path: Path) -> None:
    async with served(store_of(kind, tmp_path)) as (_, client):
        key = {"Idempotency-Key": "k-1"}
        asked = {"json": {"agent": "echo", "text": "hi", "context": {"b": 1, "a": 2}}, "headers": key}
        answers = await asyncio.gather(*(client.ask("POST", "/threads", **asked) for _ in range(5)))
        assert {body["id"] for _, body in answers} == {answers[0][1]["id"]}
        status, body = await client.ask("POST", "/threads", **asked)
        assert (status, body["receipt"]["repeat"]) == (200, True)
        other = {"json": {"agent": "echo", "text": "ho"}, "headers": key}
        status, body = await client.ask("POST", "/threads", **other)
        assert (status, body["error"]["type"]) == (409, "refused")
        messages = await client.settled(body_id := answers[0][1]["id"])
        assert [message["type"] for message in messages] == ["noted", "said", "turn"]
        _, listed = await client.ask("GET", "/threads")
        assert [row["id"] for row in listed["threads"]] == [body_id]


@STORES
async def test_the_same_key_speaks_once(kind: str, tmp_path: Path) -> None:
    async with served(store_of(kind, tmp_path)) as (_, client):
        thread = await client.start()
        await client.settled(thread)
        path, key = f"/threads/{thread}/messages", {"Idempotency-Key": "k-2"}
        first = await client.ask("POST", path, json={"text": "once"}, headers=key)
        again = await client.ask("POST", path, json={"text": "once"}, headers=key)
        assert (first[0], again[0], first[1]["signal"]) == (202, 202, again[1]["signal"])
        assert (first[1]["repeat"], again[1]["repeat"]) == (False, True)
        assert (await client.ask("POST", path, json={"text": "twice"}, headers=key))[0] == 409
        assert (await client.ask("POST", path, json={"text": "once", "mode": "queue"}, headers=key))[0] == 409
        said = [message for message in await client.settled(thread, 2) if message["type"] == "said"]
        assert [message["text"] for message in said] == ["hi", "once"]


async def test_pages() -> None:
    async with served("memory:") as (_, client):
        threads = sorted([await client.start(str(i)) for i in range(5)])
        seen: list[str] = []
        after: str | None = ""
        while after is not None:
            _, body = await client.ask("GET", f"/threads?limit=2&after={after}")
            seen += [row["id"] for row in body["threads"]]
            after = body["after"]
        assert seen == threads

        await client.settled(threads[0])
        positions: list[int] = []
        more, at = True, 0
        while more:
            _, body = await client.ask("GET", f"/threads/{threads[0]}/messages?limit=1&after={at}")
            positions += [message["position"] for message in body["messages"]]
            more, at = body["more"], body["after"]
        assert positions == [1, 2, 3]


async def test_filters() -> None:
    async with served("memory:", [echo()]) as (_, client):
        await client.ask("POST", "/threads", json={"agent": "echo", "owner": "ann"})
        await client.ask("POST", "/threads", json={"agent": "echo", "owner": "bob"})
        _, body = await client.ask("GET", "/threads?owner=ann")
        assert [row["owner"] for row in body["threads"]] == ["ann"]
        assert (await client.ask("GET", "/threads?agent=nobody"))[1]["threads"] == []
        assert (await client.ask("GET", "/threads?state=closed"))[1]["threads"] == []


async def test_an_unknown_thread_is_404() -> None:
    async with served("memory:", workers=0) as (_, client):
        answers = {
            (method, rest): await client.ask(method, f"/threads/nobody{rest}")
            for method, rest in UNKNOWN_PATHS
        }
        assert {status for status, _ in answers.values()} == {404}, answers
        assert {body["error"]["type"] for _, body in answers.values()} == {"refused"}
        assert (await client.ask("POST", "/threads/nobody/messages", json={"text": "hi"}))[0] == 404


IMAGE = b'{"agent":"echo","parts":[{"type":"image","media_type":"a/b","data":%s}]}'
BAD_BODIES: list[tuple[str, bytes]] = [
    ("no JSON", b"{"),
    ("not UTF-8", b'{"agent":"echo","text":"\xff"}'),
    ("UTF-16", '{"agent":"echo"}'.encode("utf-16")),
    ("an array", b"[]"),
    ("a string", b'"hi"'),
    ("null", b"null"),
    ("nothing", b""),
    ("NaN", b'{"agent":"echo","text":"hi","context":NaN}'),
    ("infinity", b'{"agent":"echo","text":"hi","context":-Infinity}'),
    ("a number past every float", b'{"agent":"echo","text":"hi","context":1e999}'),
    ("a very long number", b'{"agent":"echo","text":"hi","context":' + b"9" * 10_000 + b"}"),
    ("deep nesting", b'{"agent":"echo","context":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ("trailing words", b'{"agent":"echo"} x'),
    ("a member twice", b'{"agent":"echo","text":"hi","text":"ho"}'),
    ("a member twice within", b'{"agent":"echo","text":"hi","context":{"a":1,"a":2}}'),
    ("no agent", b'{"text":"hi"}'),
    ("an unknown agent", b'{"agent":"nobody","text":"hi"}'),
    ("agent of a wrong type", b'{"agent":1,"text":"hi"}'),
    ("a role", b'{"agent":"echo","text":"hi","role":"assistant"}'),
    ("a sender", b'{"agent":"echo","text":"hi","by":{"kind":"runtime"}}'),
    ("text and parts", b'{"agent":"echo","text":"hi","parts":[]}'),
    ("empty text", b'{"agent":"echo","text":"  "}'),
    ("an unknown part", b'{"agent":"echo","parts":[{"type":"call","name":"x"}]}'),
    ("a part of another kind", b'{"agent":"echo","parts":[{"k":"text","text":"hi"}]}'),
    ("an image with a handle", IMAGE % b'"","handle":"x"'),
    ("an image that is no base64", IMAGE % b'"*"'),
    ("an unknown tier", b'{"agent":"echo","text":"hi","tier":"soon"}'),
    ("an id that is a path", b'{"agent":"echo","text":"hi","thread":"../x"}'),
    ("a long owner", b'{"agent":"echo","text":"hi","owner":"' + b"x" * 201 + b'"}'),
    ("a long context", b'{"agent":"echo","text":"hi","context":"' + b"x" * 100_001 + b'"}'),
]  # fmt: skip


async def test_bad_bodies_start_nothing() -> None:
    async with served("memory:", workers=0) as (runtime, client):
        headers = {"Content-Type": "application/json"}
        answers = {
            name: await client.ask("POST", "/threads", data=body, headers=headers)
            for name, body in BAD_BODIES
        }
        assert {name: status for name, (status, _) in answers.items()} == dict.fromkeys(answers, 400)
        assert all(body["error"]["type"] == "refused" for _, body in answers.values())
        assert all(body["error"]["message"] for _, body in answers.values())
        assert await runtime.threads() == []


async def test_only_json_is_taken() -> None:
    async with served("memory:", workers=0) as (_, client):
        for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            options: dict[str, Any] = {"data": b'{"agent":"echo"}', "headers": {"Content-Type": media}}
            assert (await client.ask("POST", "/threads", **options))[0] == 415


async def test_bodies_are_bounded() -> None:
    async with served("memory:", workers=0) as (runtime, client):
        large = b'{"agent":"echo","text":"' + b"x" * (17 * 1024 * 1024) + b'"}'
        headers = {"Content-Type": "application/json"}
        assert (await client.ask("POST", "/threads", data=io.BytesIO(large), headers=headers))[0] == 413

        async def pieces() -> Any:
            for start in range(0, len(large), 65_536):
                yield large[start : start + 65_536]

        assert (await client.ask("POST", "/threads", data=pieces(), headers=headers))[0] == 413
        long = {"agent": "echo", "text": "x" * 1_000_001}
        assert (await client.ask("POST", "/threads", json=long))[0] == 400
        assert await runtime.threads() == []
        assert (await client.ask("GET", "/healthz"))[0] == 200


async def test_bad_numbers() -> None:
    queries = ("after=-1", "after=x", "after=1.5", "limit=0", "limit=1001", "limit=%20", "after=" + "9" * 30)
    async with served("memory:", workers=0) as (_, client):
        thread = await client.start()
        answers = {
            query: (await client.ask("GET", f"/threads/{thread}/messages?{query}"))[0] for query in queries
        }
        assert answers == dict.fromkeys(queries, 400)


@STORES
async def test_odd_text_is_kept(kind: str, tmp_path: Path) -> None:
    async with served(store_of(kind, tmp_path)) as (_, client):
        body = b'{"agent":"echo","text":"nul \\u0000 escape \\u001b[31m lone \\ud800 pair \\ud83d\\ude00"}'
        headers = {"Content-Type": "application/json"}
        _, started = await client.ask("POST", "/threads", data=body, headers=headers)
        messages = await client.settled(started["id"])
        assert messages[1]["text"] == "nul \x00 escape \x1b[31m lone \ufffd pair \U0001f600"
        assert messages[2]["text"].endswith("lone \ufffd pair \U0001f600")


@STORES
async def test_images_and_files(kind: str, tmp_path: Path) -> None:
    async with served(store_of(kind, tmp_path)) as (_, client):
        parts = [
            {"type": "text", "text": "look"},
            {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="},
            {"type": "file", "name": "a.txt", "text": "abc"},
        ]
        _, started = await client.ask("POST", "/threads", json={"agent": "echo", "parts": parts})
        said = (await client.settled(started["id"]))[1]
        assert [part["type"] for part in said["parts"]] == ["text", "image", "file"]
        assert said["parts"][1] == parts[1]


async def test_modes() -> None:
    async with served("memory:") as (_, client):
        thread = await client.start()
        await client.settled(thread)
        path = f"/threads/{thread}/messages"
        for number, mode in enumerate(("steer", "queue", "interrupt"), 2):
            status, receipt = await client.ask("POST", path, json={"text": mode, "mode": mode})
            assert (status, receipt["mode"]) == (202, "steer" if mode == "queue" else mode)
            assert (await client.settled(thread, number))[-1]["text"] == f"echo {mode}"
        assert (await client.ask("POST", path, json={"text": "x", "mode": "shout"}))[0] == 400


async def test_unknown_paths_and_methods() -> None:
    async with served("memory:", workers=0) as (_, client):
        status, body = await client.ask("GET", "/nothing/here")
        assert (status, body["error"]["type"]) == (404, "refused")
        assert (await client.ask("DELETE", "/threads"))[0] == 405
        assert (await client.ask("GET", "/threads/"))[0] == 404


async def test_health_needs_no_token_and_proves_the_server() -> None:
    async with served("memory:", workers=0) as (runtime, client):
        from torpor.web.proof import proof

        bare = Client(client.session, runtime.url)
        status, body = await bare.ask("GET", "/healthz?challenge=abc", headers={"Authorization": ""})
        assert (status, body["status"]) == (200, "ok")
        assert body["proof"] == proof(runtime.token, "abc") != proof("another", "abc")


@STORES
async def test_a_thread_that_is_there_is_not_started_by_another_key(kind: str, tmp_path: Path) -> None:
    async with served(store_of(kind, tmp_path)) as (_, client):
        there = {"agent": "echo", "text": "hi", "thread": "t1"}

        async def ask(key: str, body: dict[str, Any] = there) -> int:
            return (await client.ask("POST", "/threads", json=body, headers={"Idempotency-Key": key}))[0]

        assert sorted(await asyncio.gather(ask("one"), ask("two"))) == [201, 409]
        assert sorted([await ask("one"), await ask("two")]) == [200, 409]
        assert await ask("three", {"agent": "echo", "thread": "t1"}) == 409
        assert (await client.ask("POST", "/threads", json=there))[0] == 409
        said = [one for one in await client.settled("t1") if one["type"] == "said"]
        assert [one["text"] for one in said] == ["hi"]


@STORES
async def test_a_thread_without_words_is_started_once_by_its_key(kind: str, tmp_path: Path) -> None:
    async with served(store_of(kind, tmp_path)) as (_, client):
        asked = {"json": {"agent": "echo", "thread": "t1"}, "headers": {"Idempotency-Key": "k"}}
        answers = [await client.ask("POST", "/threads", **asked) for _ in range(2)]
        assert [status for status, _ in answers] == [201, 200]
        assert answers[0][1] == answers[1][1]


@STORES
async def test_the_key_of_a_start_is_taken_for_other_words(kind: str, tmp_path: Path) -> None:
    async with served(store_of(kind, tmp_path)) as (_, client):
        key = {"Idempotency-Key": "k"}
        asked = {"json": {"agent": "echo", "text": "hi", "thread": "t1"}, "headers": key}
        assert (await client.ask("POST", "/threads", **asked))[0] == 201
        path = "/threads/t1/messages"
        status, body = await client.ask("POST", path, json={"text": "ho"}, headers=key)
        assert (status, body["error"]["type"]) == (409, "refused")
        status, receipt = await client.ask("POST", path, json={"text": "hi"}, headers=key)
        assert (status, receipt["repeat"]) == (202, True)


async def test_records_come_page_by_page_and_whole() -> None:
    async with served("memory:") as (runtime, client):
        thread = runtime.thread(await client.start())
        for n in range(3):
            await client.settled(thread.id, n + 1)
            await thread.send(f"again {n}")
        await client.settled(thread.id, 4)
        whole = await thread.records()
        seen: list[int] = []
        more, after = True, 0
        while more:
            _, page = await client.ask("GET", f"/threads/{thread.id}/records?limit=2&after={after}")
            seen += [record["version"] for record in page["records"]]
            more, after = page["more"], page["after"]
        assert seen == [record.version for record in whole]
        assert len(seen) > 2
        assert await thread.records(after=2) == whole[2:]


@STORES
async def test_forks_and_trees(kind: str, tmp_path: Path) -> None:
    async with served(store_of(kind, tmp_path)) as (runtime, client):
        thread = await client.start("one")
        await client.settled(thread)
        headers = {"Idempotency-Key": "again"}
        status, heir = await client.ask("POST", f"/threads/{thread}/fork", json={"at": 2}, headers=headers)
        assert (status, heir["purpose"], heir["root"], heir["parent"]) == (201, "root", heir["id"], "")
        status, repeat = await client.ask("POST", f"/threads/{thread}/fork", json={"at": 2}, headers=headers)
        assert (status, repeat["id"]) == (200, heir["id"])
        status, body = await client.ask("POST", f"/threads/{thread}/fork", json={"at": 9})
        assert (status, "from 1 to" in body["error"]["message"]) == (400, True)
        await client.ask("POST", f"/threads/{heir['id']}/messages", json={"text": "two"})
        await client.settled(heir["id"])

        async def known() -> bool:
            return (await client.ask("GET", f"/threads/{thread}"))[1]["heirs"] == {heir["id"]: 2}  # type: ignore[no-any-return]

        await until(known)
        _, found = await client.ask("GET", f"/threads/{heir['id']}")
        assert found["lineage"] == [{"thread": thread, "upto": 2}]
        assert await client.ask("GET", f"/threads/{thread}/children") == (
            200,
            {"threads": [], "after": None},
        )
        child = Row(thread="kid", agent="echo", root=thread, parent=thread, purpose="child", title="Kid")
        await runtime.parts.store.create(child)
        _, listed = await client.ask("GET", f"/threads/{thread}/children")
        assert [(row["id"], row["title"], row["parent"]) for row in listed["threads"]] == [
            ("kid", "Kid", thread)
        ]
        for query, ids in (
            (f"root={thread}", {thread, "kid"}),
            (f"parent={thread}", {"kid"}),
            ("purpose=child", {"kid"}),
            ("parent=", {thread, heir["id"]}),
            ("purpose=compaction", set()),
        ):
            _, listed = await client.ask("GET", f"/threads?{query}")
            assert {row["id"] for row in listed["threads"]} == ids, query


async def test_views_are_given_by_type() -> None:
    async with served("memory:") as (runtime, client):
        thread = await client.start("one")
        assert await client.ask("GET", f"/threads/{thread}/views") == (200, {"views": []})
        for view in (
            View("plan", '{"steps":[1]}', 2, 5.0),
            View("diff", '{"patch":"x"}', 1, 4.0),
            View("gone"),
        ):
            await runtime.parts.side.put(views_space(thread), view.type, msgspec.msgpack.encode(view))
        _, given = await client.ask("GET", f"/threads/{thread}/views")
        assert given["views"] == [
            {"type": "diff", "content": {"patch": "x"}, "seq": 1, "at": 4.0},
            {"type": "plan", "content": {"steps": [1]}, "seq": 2, "at": 5.0},
        ]
