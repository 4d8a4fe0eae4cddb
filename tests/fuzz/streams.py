"""What model providers stream: the bytes of an answer, through the SDKs and our readers, to a turn."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from tests.fuzz.bounds import Target
from tests.models.events import anthropic_events, openai_events
from torpor.core.chunks import AnyChunk, CallDelta, CallStart, ReasoningDelta, ReasoningDone, Stop, TextDelta
from torpor.core.errors import TorporError
from torpor.core.messages import Text
from torpor.core.request import Attempt, InputItem, Request
from torpor.core.turn import Gathering
from torpor.models import Anthropic, OpenAI

ASKED = Request("tester", "any", "Be brief.", (), (InputItem(1.0, (Text("hi"),)),))
LOOP = asyncio.new_event_loop()
STATUSES = (200, 200, 200, 200, 200, 302, 400, 401, 404, 413, 429, 500, 529)


class _Body(httpx2.AsyncByteStream):
    """Bytes in pieces of a size."""

    def __init__(self, body: bytes, size: int) -> None:
        self._body = body
        self._size = size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), self._size):
            yield self._body[at : at + self._size]


def _answering(data: bytes) -> httpx2.MockTransport:
    first, second, body = (data[:1] or b"\x00")[0], (data[1:2] or b"\xff")[0], data[2:]
    headers = {"content-type": "text/event-stream"}
    if first & 0x80:
        head, _, body = body.partition(b"\x00")
        headers |= {"retry-after": head.decode("latin-1").strip("\r\n"), "content-encoding": "gzip"}

    def answer(_: Any) -> httpx2.Response:
        status = STATUSES[first % len(STATUSES)]
        try:
            return httpx2.Response(status, headers=headers, stream=_Body(body, second + 1))
        except ValueError:
            return httpx2.Response(status, stream=_Body(body, second + 1))

    return httpx2.MockTransport(answer)


MODELS: dict[str, OpenAI | Anthropic] = {
    "openai": OpenAI("m", base_url="http://models.test/v1", api_key="k"),
    "anthropic": Anthropic("m", base_url="http://models.test", api_key="k"),
}


async def _streamed(kind: str, data: bytes) -> None:
    model = MODELS[kind]
    client: Any = model._clients.here(model._client)  # type: ignore[arg-type]
    client._client._transport = _answering(data)
    gathering = Gathering()
    try:
        async for chunk in model.stream(ASKED, Attempt("t", 0)):
            gathering.add(chunk)
            gathering.so_far()
        gathering.parts()
    except TorporError:
        gathering.cut()


def openai(data: bytes) -> None:
    """An answer of a server that speaks Chat Completions."""
    LOOP.run_until_complete(_streamed("openai", data))


def anthropic(data: bytes) -> None:
    """An answer of a server that speaks the Messages API."""
    LOOP.run_until_complete(_streamed("anthropic", data))


CHUNKS: list[AnyChunk] = [
    ReasoningDelta("Hm"),
    ReasoningDone("c2ln", "anthropic"),
    TextDelta("It is \u00e9"),
    CallStart(0, "add", "id_1"),
    CallDelta(0, '{"a": 1, "b": [2]}'),
]

TARGETS = (
    Target(
        "openai",
        openai,
        (
            b"\x00\xff" + b"".join(openai_events(CHUNKS, Stop("calls"))),
            b"\x00\x07" + b"".join(openai_events([TextDelta("fine")], Stop("end"))),
            b'\x07\xff{"error":{"message":"no","type":"invalid_request_error","code":"model_not_found"}}',
            b"\x8a\xff3\x00{}",
        ),
    ),
    Target(
        "anthropic",
        anthropic,
        (
            b"\x00\xff" + b"".join(anthropic_events(CHUNKS, Stop("calls"))),
            b"\x00\x07" + b"".join(anthropic_events([TextDelta("fine")], Stop("end"))),
            b'\x00\xffevent: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n',
        ),
    ),
)
