"""What every model must do: subclass ``ModelContract`` and say how to make one that plays a part."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import msgspec
import pytest

from torpor.core.chunks import (
    AnyChunk,
    CallDelta,
    CallStart,
    ReasoningDelta,
    ReasoningDone,
    Stop,
    TextDelta,
)
from torpor.core.errors import Refused, Unavailable
from torpor.core.messages import Text, Usage
from torpor.core.request import Attempt, InputItem, Request
from torpor.ports import Model

PATIENCE = 30.0
"""Seconds after which something that should have happened has not."""

ASKED = Request("tester", "any", "Answer.", (), (InputItem(0.0, (Text("Hello"),)),))


class Play(msgspec.Struct, frozen=True):
    """What a model's provider shall do, whatever it is asked.

    It sends ``chunks`` (without the stop), then, by ``then``: ``stop`` (with ``stop``), ``die`` (the
    connection ends without an end), or ``hang`` (nothing more until it is left). ``busy`` and ``refuse`` send
    no chunk: it is overloaded for ``retry_after`` seconds, or will not answer.
    """

    chunks: tuple[AnyChunk, ...] = ()
    then: str = "stop"
    stop: Stop = Stop()
    retry_after: float = 7.0


def words(*texts: str) -> tuple[AnyChunk, ...]:
    """Text in pieces."""
    return tuple(TextDelta(text) for text in texts)


def asking(index: int, name: str, *pieces: str, id: str = "") -> tuple[AnyChunk, ...]:
    """A call, its arguments in pieces."""
    return (
        CallStart(index, name, id or f"provider_{index}"),
        *(CallDelta(index, piece) for piece in pieces),
    )


TWO_CALLS = (
    *words("Let me ", "look. "),
    *asking(0, "read", '{"path"', ': "a"}'),
    *asking(1, "read", '{"path": ', '"b"}'),
)


class ModelContract(ABC):
    """The tests. They need a plugin that runs async tests."""

    @abstractmethod
    def provide(self, play: Play) -> AbstractAsyncContextManager[Model]:
        """A model whose provider plays the part, as often as it is asked; released on exit."""

    async def gather(self, model: Model, request: Request = ASKED, attempt: int = 0) -> list[AnyChunk]:
        """All chunks of one completion."""
        async with asyncio.timeout(PATIENCE):
            return [chunk async for chunk in model.stream(request, Attempt("t", 0, attempt))]

    async def test_text_ends_with_one_stop(self) -> None:
        async with self.provide(Play(words("Grüße, ", "🌍", " = 世界"))) as model:
            chunks = await self.gather(model)
        assert text_in(chunks) == "Grüße, 🌍 = 世界"
        assert [type(chunk) for chunk in chunks].count(Stop) == 1
        assert stop_in(chunks).reason == "end"

    async def test_names_itself_by_provider(self) -> None:
        async with self.provide(Play()) as model:
            provider, colon, name = model.name.partition(":")
        assert provider
        assert colon
        assert name

    async def test_calls_come_apart_in_order(self) -> None:
        async with self.provide(Play(TWO_CALLS, stop=Stop("calls"))) as model:
            chunks = await self.gather(model)
        assert calls_in(chunks) == [("read", '{"path": "a"}'), ("read", '{"path": "b"}')]
        assert text_in(chunks) == "Let me look. "
        assert stop_in(chunks).reason == "calls"

    async def test_a_call_begins_before_its_arguments(self) -> None:
        async with self.provide(Play(TWO_CALLS, stop=Stop("calls"))) as model:
            chunks = await self.gather(model)
        begun: set[int] = set()
        for chunk in chunks:
            if isinstance(chunk, CallStart):
                assert chunk.index not in begun
                begun.add(chunk.index)
            elif isinstance(chunk, CallDelta):
                assert chunk.index in begun

    async def test_reasoning_is_closed(self) -> None:
        thought = (ReasoningDelta("Let me "), ReasoningDelta("think."), ReasoningDone("sig", "any"))
        async with self.provide(Play((*thought, *words("Done.")))) as model:
            chunks = await self.gather(model)
        kinds = [type(chunk) for chunk in chunks]
        assert "".join(c.text for c in chunks if isinstance(c, ReasoningDelta)) == "Let me think."
        assert kinds.count(ReasoningDone) == 1
        assert kinds.index(ReasoningDone) < kinds.index(TextDelta)

    async def test_nothing_at_all_is_an_answer(self) -> None:
        async with self.provide(Play()) as model:
            assert [type(chunk) for chunk in await self.gather(model)] == [Stop]

    @pytest.mark.parametrize("reason", ["length", "refusal"])
    async def test_tells_why_it_stopped(self, reason: str) -> None:
        async with self.provide(Play(words("Well"), stop=Stop(reason))) as model:
            assert stop_in(await self.gather(model)).reason == reason

    async def test_usage_is_told_by_class(self) -> None:
        usage = Usage(input=11, cache_read=7, cache_write=3, output=5, reasoning=2)
        async with self.provide(Play(words("Hi"), stop=Stop(usage=usage))) as model:
            assert stop_in(await self.gather(model)).usage == usage

    async def test_usage_is_never_made_up(self) -> None:
        async with self.provide(Play(words("Hi"))) as model:
            assert stop_in(await self.gather(model)).usage is None

    @pytest.mark.parametrize("sent", range(len(TWO_CALLS) + 1))
    async def test_a_stream_that_dies_is_unavailable(self, sent: int) -> None:
        async with self.provide(Play(TWO_CALLS[:sent], then="die")) as model:
            with pytest.raises(Unavailable):
                await self.gather(model)

    async def test_busy_tells_when_to_come_again(self) -> None:
        async with self.provide(Play(then="busy", retry_after=7.0)) as model:
            with pytest.raises(Unavailable) as caught:
                await self.gather(model)
        assert caught.value.retry_after == pytest.approx(7.0)

    async def test_refused_is_not_for_retrying(self) -> None:
        async with self.provide(Play(then="refuse")) as model:
            with pytest.raises(Refused):
                await self.gather(model)

    async def test_closing_cuts_at_once_and_the_model_goes_on(self) -> None:
        async with self.provide(Play(words("Once upon", " a time"), then="hang")) as model:
            for _ in range(3):
                assert await self.first(model) == "Once upon"

    async def first(self, model: Model) -> str:
        """The first text of a stream that is then closed."""
        async with asyncio.timeout(PATIENCE), aclosing(opened(model)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextDelta):
                    return chunk.text
        raise AssertionError("no text came")

    async def test_cancelling_cuts_a_silent_stream(self) -> None:
        async with self.provide(Play(words("Hm"), then="hang")) as model:
            heard = asyncio.Event()

            async def listen() -> None:
                async with aclosing(opened(model)) as chunks:
                    async for _ in chunks:
                        heard.set()

            task = asyncio.create_task(listen())
            async with asyncio.timeout(PATIENCE):
                await heard.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    async def test_streams_side_by_side_do_not_mix(self) -> None:
        async with self.provide(Play(TWO_CALLS, stop=Stop("calls"))) as model:
            several = await asyncio.gather(*(self.gather(model, attempt=n) for n in range(8)))
        assert all(calls_in(chunks) == calls_in(several[0]) for chunks in several)
        assert len(calls_in(several[0])) == 2

    async def test_asking_leaves_the_request_alone(self) -> None:
        before = msgspec.msgpack.encode(ASKED)
        async with self.provide(Play(words("Hi"))) as model:
            await self.gather(model)
        assert msgspec.msgpack.encode(ASKED) == before


def opened(model: Model) -> Any:
    """A stream as something that can be closed."""
    return model.stream(ASKED, Attempt("t", 0))


def text_in(chunks: Sequence[AnyChunk]) -> str:
    """All text."""
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def stop_in(chunks: Sequence[AnyChunk]) -> Stop:
    """The stop, which is last."""
    last = chunks[-1]
    assert isinstance(last, Stop), f"the stream ended with {last!r}"
    return last


def calls_in(chunks: Sequence[AnyChunk]) -> list[tuple[str, str]]:
    """Each call's name and whole arguments, in the order in which they began."""
    names = {chunk.index: chunk.name for chunk in chunks if isinstance(chunk, CallStart)}
    texts = dict.fromkeys(names, "")
    for chunk in chunks:
        if isinstance(chunk, CallDelta):
            texts[chunk.index] += chunk.text
    return [(names[index], texts[index]) for index in names]
