"""Providers of models that go wrong: endless lines, bombs, endless errors; a clear error, bounded memory."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from torpor.core.errors import ModelRefused, TorporError, Unavailable
from torpor.core.messages import Text
from torpor.core.request import Attempt, InputItem, Request
from torpor.models import Anthropic, OpenAI, bounded

ASKED = Request("tester", "any", "Be brief.", (), (InputItem(1.0, (Text("hi"),)),))
KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])


class Counted(httpx2.AsyncByteStream):
    """So many pieces; counts those that were taken."""

    def __init__(self, piece: bytes, most: int) -> None:
        self.piece = piece
        self.most = most
        self.taken = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.taken < self.most:
            self.taken += 1
            yield self.piece

    async def aclose(self) -> None:
        self.closed = True


async def failure(kind: str, body: Counted, status: int = 200, **headers: str) -> TorporError:
    """What a model says of an answer with this body."""
    model = (
        OpenAI("m", base_url="http://models.test/v1", api_key="sk-secret")
        if kind == "openai"
        else Anthropic("m", base_url="http://models.test", api_key="sk-secret")
    )
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx2.Response(status, headers={"content-type": "text/event-stream", **told}, stream=body)

    client = model._clients.here(model._client)  # type: ignore[arg-type]
    client._client._transport = httpx2.MockTransport(answer)
    with pytest.raises(TorporError) as raised:
        async for _ in model.stream(ASKED, Attempt("t", 0)):
            pass
    await model.close()
    assert seen[0].headers["accept-encoding"] == "identity"
    assert body.closed
    assert "sk-secret" not in str(raised.value)
    return raised.value


@KINDS
@pytest.mark.parametrize("start", [b"data: ", b"data: {}\n\ndata: ", b""])
async def test_a_line_without_end_is_left(monkeypatch: pytest.MonkeyPatch, kind: str, start: bytes) -> None:
    monkeypatch.setattr(bounded, "LONGEST_LINE", 100_000)
    body = Counted(b"x" * 10_000, 1_000)
    error = await failure(kind, body)
    assert isinstance(error, Unavailable)
    assert "does not end" in str(error)
    assert body.taken <= 12


@KINDS
async def test_a_stream_of_nothing_without_end_is_left(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(bounded, "MOST", 100_000)
    body = Counted(b": still here\n\n", 100_000)
    error = await failure(kind, body)
    assert "does not end" in str(error)
    assert body.taken < 8_000


@KINDS
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "deflate", "gzip, gzip"])
async def test_what_is_compressed_is_not_unpacked(kind: str, coding: str) -> None:
    body = Counted(b"\x1f\x8b" + b"x" * 1_000, 10)
    error = await failure(kind, body, content_encoding=coding)
    assert isinstance(error, ModelRefused)
    assert "compressed" in str(error)
    assert body.taken == 0


@KINDS
@pytest.mark.parametrize("coding", ["identity", "gzip"])
@pytest.mark.parametrize(("status", "error"), [(401, ModelRefused), (429, Unavailable), (500, Unavailable)])
async def test_of_an_error_only_the_beginning_is_read(
    kind: str, coding: str, status: int, error: type[TorporError]
) -> None:
    body = Counted(b"x" * 100_000, 1_000)
    found = await failure(kind, body, status, content_encoding=coding)
    assert isinstance(found, error)
    assert str(status) in str(found)
    assert body.taken <= 4
