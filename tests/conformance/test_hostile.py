"""The checks come to an end, and take little, whatever a server does to them."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.good_server import TOKEN, GoodServer, serving, tool
from tests.protocol.tool_stub import endless, rude_server, saying, silence
from torpor.conformance import caller, discovery, listening, sampling
from torpor.conformance.auditing import audit
from torpor.conformance.caller import Caller
from torpor.conformance.exchange import Exchange
from torpor.conformance.ledger import Ledger, Report, read_rows
from torpor.conformance.listening import Callback, StubRuntime, stub_runtime
from torpor.conformance.probe import Call, Patience, Probe
from torpor.conformance.server import Options, check_server
from torpor.conformance.server_rows import ROWS
from torpor.core.errors import Refused

NAMES = st.sampled_from(
    [
        *("type", "group_id", "id", "tool_call_id", "text", "content", "display_as", "subscription", "final"),
        *("data", "mediaType", "view_type", "choices", "default", "name", "endpoint", "tools", "description"),
        *("inputSchema", "annotations", "displayScript", "properties", "required", "items", "enum", "anyOf"),
        *("$ref", "minLength", "minimum", "minItems", "const", "additionalProperties", "readOnly"),
    ]
)
BRIEF = Patience(answer=0.5, ack=0.5, settle=0.3, result=0.5, retry=0.5, quiet=0.2)
OK = b"HTTP/1.1 200 OK\r\n"


async def check(server: GoodServer, *rows: str) -> Report:
    async with serving(server) as url:
        options = Options(
            token=TOKEN,
            only=frozenset(rows),
            calls={"quick": Call("echo", {"words": "x"})},
            patience=BRIEF,
        )
        return await check_server(url, options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "speak",
    [
        silence,
        saying(b""),
        saying(b"\x00\xff\r\n\r\n"),
        saying(OK + b"Content-Length: 5\r\n\r\n{}"),
        saying(OK + b"Content-Length: 2\r\n\r\n[]"),
        saying(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
        saying(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
        saying(OK + b"Content-Length: 200000\r\n\r\n" + b'{"a":' * 40_000),
        endless(OK + b"\r\n", b"x" * 65_536),
        endless(OK + b"X-", b"x" * 1_000),
        endless(OK + b"Content-Encoding: gzip\r\n\r\n", b"\x1f\x8b" + b"\x00" * 65_000),
    ],
    ids=[
        "silent",
        "closing",
        "no HTTP",
        "cut short",
        "an array",
        "bad chunks",
        "elsewhere",
        "deep",
        "endless",
        "endless header",
        "a bomb",
    ],
)
async def test_a_manifest_of_any_kind_is_judged_in_time(speak: Any) -> None:
    async with asyncio.timeout(8), rude_server(speak) as url:
        report = await check_server(url, Options(patience=BRIEF))
    assert not report.is_sound
    assert {"TS-03"} <= set(report.broken())


async def test_answers_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "BODY_LIMIT", 10_000)
    async with (
        rude_server(endless(OK + b"\r\n", b"x" * 65_536)) as url,
        Caller(url, token=None, within=5) as one,
    ):
        answer = await one.get("/")
    assert answer.status == 0
    assert "more than 10,000 bytes" in answer.error


async def test_an_endpoint_may_not_lead_to_where_only_this_machine_gets() -> None:
    for url in (
        "http://169.254.169.254/latest",
        "http://10.0.0.1/",
        "file:///etc/passwd",
        "http://[::ffff:10.0.0.1]/",
    ):
        async with Caller("http://127.0.0.1:9", token="secret", within=5) as one:
            answer = await one.post(url, {})
        assert answer.status == 0
        assert not answer.exchange.answered.startswith("2")


async def test_the_credential_goes_to_the_origin_of_the_server_alone() -> None:
    seen: list[str | None] = []

    class Elsewhere(GoodServer):
        def admits(self, request: web.Request) -> bool:
            seen.append(request.headers.get("Authorization"))
            return True

    elsewhere = Elsewhere()

    class Leading(GoodServer):
        def manifest(self) -> dict[str, Any]:
            return {**super().manifest(), "endpoint": f"{elsewhere.url}/invoke"}

    async with serving(elsewhere):
        await check(Leading(), "TS-21")
    assert seen
    assert set(seen) == {None}


@pytest.mark.slow
async def test_more_callbacks_than_there_may_be_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "MOST_CALLBACKS", 40)

    class Flooding(GoodServer):
        def goes_on(self, status: int) -> bool:
            return False

        async def echo(self, body: dict[str, Any]) -> None:
            await asyncio.gather(*(super(Flooding, self).echo(body) for _ in range(60)))

    report = await check(Flooding(), "TS-21")
    assert any("not kept" in note for note in report.notes)


async def test_a_callback_that_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "BODY_LIMIT", 50_000)
    async with stub_runtime() as stub, aiohttp.ClientSession() as http:
        asked = stub.expect()
        async with http.post(asked.url, data=b"x" * 60_000) as answer:
            assert answer.status == 413
    assert asked.callbacks == []
    assert stub.dropped == 1


async def test_strangers_do_not_count_as_callbacks() -> None:
    async with stub_runtime() as stub, aiohttp.ClientSession() as http:
        asked = stub.expect()
        for number in range(150):
            body = json.dumps({"type": "tool_result", "id": f"guess-{number}"}).encode()
            async with http.post(f"{stub.base}/cb/guess", data=body) as answer:
                assert answer.status == 404
    assert asked.callbacks == []
    assert len(stub.strays) <= 100


async def test_nobody_can_listen_where_somebody_does() -> None:
    async with stub_runtime() as stub:
        with pytest.raises(Refused, match="Nothing can listen"):
            async with stub_runtime(stub.base.removeprefix("http://")):
                raise AssertionError


@pytest.mark.slow
async def test_a_manifest_of_thousands_of_odd_tools_is_judged() -> None:
    odd: list[Any] = [None, 7, {}, {"name": 3}, {"name": ""}, {"name": "x", "inputSchema": {"$ref": "#"}}]
    shapes: list[dict[str, Any]] = [
        {"type": "object", "properties": {"s": {"type": "string", "pattern": "(a+)+$"}}, "required": ["s"]},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"type": "object", "required": ["s"], "properties": {"s": {"$ref": "#/properties/s"}}},
    ]

    class Odd(GoodServer):
        tools = (
            *GoodServer.tools,
            *(tool(f"t{number}", shape, readOnly=True) for number, shape in enumerate(shapes)),
            *(odd * 300),
        )

    async with asyncio.timeout(20):
        report = await check(Odd(), "TS-07", "TS-08", "TS-11", "TS-21")
    assert {"TS-07", "TS-08", "TS-11"} <= set(report.broken())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=25,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=12)


def probe() -> Probe:
    stub = StubRuntime("http://127.0.0.1:9")
    return Probe(Caller(stub.base, token=TOKEN, within=1), stub, Ledger(), BRIEF)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(bodies=st.lists(OBJECTS, max_size=3))
def test_any_callback_can_be_audited(bodies: list[dict[str, Any]]) -> None:
    about = probe()
    asked = about.stub.expect()
    for body in bodies:
        raw = json.dumps(body).encode()
        asked.callbacks.append(Callback("POST", asked.target, {"Content-Type": "application/json"}, raw))
    audit(about)
    about.ledger.findings(read_rows(ROWS))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(manifest=OBJECTS)
def test_any_manifest_can_be_judged(manifest: dict[str, Any]) -> None:
    about = probe()
    about.manifest = json.loads(json.dumps(manifest))
    discovery.judge(about, Exchange("", ""))
    for tool_ in about.tools:
        good = sampling.sample(tool_.schema)
        if good is not None:
            assert sampling.conforms(tool_.schema, good)
            assert not any(
                sampling.conforms(tool_.schema, bad) for _, bad in sampling.violations(tool_.schema, good)
            )
