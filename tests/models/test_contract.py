import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from tests.models.events import anthropic_events, openai_events
from tests.models.replay import Replay, Reply, replaying
from torpor.core.chunks import CallDelta, CallStart, ReasoningDelta, ReasoningDone, Stop, TextDelta
from torpor.core.errors import ModelRefused, Unavailable
from torpor.models import Anthropic, OpenAI, ScriptedModel, call, fail, reason, say, stall
from torpor.models.scripted import Ends, Piece, Used
from torpor.ports import Model
from torpor.testing.model_contract import ModelContract, Play

Events = Callable[..., list[bytes]]


def reply_for(play: Play, events: Events, failures: tuple[object, object]) -> Reply:
    busy, refused = (json.dumps(failure).encode() for failure in failures)
    if play.then == "busy":
        return Reply([busy], 529, {"retry-after": str(play.retry_after)}, type="application/json")
    if play.then == "refuse":
        return Reply([refused], 400, type="application/json")
    if play.then == "stop":
        return Reply(events(play.chunks, play.stop))
    return Reply(events(play.chunks), then={"die": "cut", "hang": "hang"}[play.then])


@contextlib.asynccontextmanager
async def served(reply: Reply, make: Callable[[Replay], OpenAI | Anthropic]) -> AsyncIterator[Model]:
    async with replaying(reply) as replay:
        model = make(replay)
        try:
            yield model
        finally:
            await model.close()


def openai_at(replay: Replay) -> OpenAI:
    return OpenAI("gpt-5-mini", base_url=f"{replay.url}/v1", api_key="sk-test-key")


def anthropic_at(replay: Replay) -> Anthropic:
    return Anthropic("claude-sonnet-5", base_url=replay.url, api_key="sk-ant-test-key")


OPENAI_FAILURES = (
    {"error": {"message": "busy", "type": "server_error", "code": "server_is_overloaded"}},
    {"error": {"message": "wrong", "type": "invalid_request_error", "code": None}},
)
ANTHROPIC_FAILURES = (
    {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
    {"type": "error", "error": {"type": "invalid_request_error", "message": "wrong"}},
)


class TestOpenAI(ModelContract):
    def provide(self, play: Play) -> contextlib.AbstractAsyncContextManager[Model]:
        return served(reply_for(play, openai_events, OPENAI_FAILURES), openai_at)


class TestOpenAIByteByByte(ModelContract):
    def provide(self, play: Play) -> contextlib.AbstractAsyncContextManager[Model]:
        return served(reply_for(play, openai_events, OPENAI_FAILURES).bytewise(), openai_at)


class TestAnthropic(ModelContract):
    def provide(self, play: Play) -> contextlib.AbstractAsyncContextManager[Model]:
        return served(reply_for(play, anthropic_events, ANTHROPIC_FAILURES), anthropic_at)


class TestAnthropicByteByByte(ModelContract):
    def provide(self, play: Play) -> contextlib.AbstractAsyncContextManager[Model]:
        return served(reply_for(play, anthropic_events, ANTHROPIC_FAILURES).bytewise(), anthropic_at)


class TestScripted(ModelContract):
    def provide(self, play: Play) -> contextlib.AbstractAsyncContextManager[Model]:
        return self._provide(play)

    @contextlib.asynccontextmanager
    async def _provide(self, play: Play) -> AsyncIterator[Model]:
        yield ScriptedModel([[*_said(play), *_ends(play)]], name="scripted:play")


def _said(play: Play) -> Sequence[Piece]:
    """Chunks back into what a script is written in."""
    pieces: list[Piece] = []
    for chunk in play.chunks:
        if isinstance(chunk, TextDelta):
            pieces.append(say(chunk.text))
        elif isinstance(chunk, CallStart):
            pieces.append(call(chunk.name, _raw="", _id=chunk.provider_id))
        elif isinstance(chunk, CallDelta):
            last = pieces[-1]
            pieces[-1] = call(last.name, _raw=last.arguments + chunk.text, _id=last.id)  # type: ignore[union-attr]
        elif isinstance(chunk, ReasoningDone):
            thought = "".join(c.text for c in play.chunks if isinstance(c, ReasoningDelta))
            pieces.append(reason(thought, opaque=chunk.opaque))
    return pieces


def _ends(play: Play) -> Sequence[Piece]:
    if play.then == "stop":
        return [Ends(play.stop.reason), Used(play.stop.usage)]
    endings: dict[str, Sequence[Piece]] = {
        "die": [fail()],
        "hang": stall(),
        "busy": [fail(Unavailable("busy", retry_after=play.retry_after))],
        "refuse": [fail(ModelRefused("no"))],
    }
    return endings[play.then]


def test_the_stops_of_plays_are_bare() -> None:
    assert Play().stop == Stop()


pytestmark = pytest.mark.usefixtures("no_keys")
