"""How many threads live below a root: those that have ended or are parked count, are seen, and closed."""

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.cast import Cast, closes, here, spawns
from tests.web.places import store_of, until
from torpor import Agent, Limits, Runtime, Thread
from torpor.core.codec import decode_head
from torpor.core.errors import ModelRefused
from torpor.core.messages import Result, Said, text_of
from torpor.core.request import Request
from torpor.models import call, say
from torpor.models.scripted import fail

STORES = pytest.mark.parametrize("kind", ["memory", "sqlite"])
FULL = "as many threads live below this one as may"


def root(request: Request) -> Any:
    """Does what the last words say, once; to news it has nothing to say."""
    word, _, rest = request.text.partition(" ")
    if word == "spawn":
        return spawns(f"as {rest}: go")
    if word == "tell":
        id, _, message = rest.partition(" ")
        return call("send_message_to_child", thread_id=id, message=message)
    return say("Fine.")


async def asked(thread: Thread, words: str) -> str:
    """What came of the call that some words lead to."""
    number = sum(isinstance(one, Said) for one in await thread.history())
    await thread.send(words)

    async def results() -> list[str]:
        history = await thread.history()
        said = [place for place, one in enumerate(history) if isinstance(one, Said)]
        return [text_of(one.parts) for one in history[said[number] :] if isinstance(one, Result)]

    async def there() -> bool:
        said = sum(isinstance(one, Said) for one in await thread.history())
        return said > number and bool(await results())

    await until(there)
    return (await results())[0]


async def states(thread: Thread) -> list[str]:
    return [child.state for child in decode_head((await thread.row()).head).children.values()]


async def until_states(thread: Thread, *wanted: str) -> None:
    async def so() -> bool:
        return await states(thread) == list(wanted)

    await until(so)


@STORES
async def test_children_that_have_ended_count_until_they_are_closed(kind: str, tmp_path: Path) -> None:
    cast = Cast(
        root=root,
        first=[say("I am done."), closes("Closed as told.")],
        second=[say("So am I.")],
        third=[say("And I.")],
        fourth=[fail(ModelRefused("never", kind="request"))],
    )
    agent = Agent("worker", model=cast, limits=Limits(threads=2))
    async with Runtime(store_of(kind, tmp_path), agents=[agent], listen=None) as runtime:
        thread = await runtime.start("worker", "hello")
        await thread.reply(10)
        for number, part in enumerate(("first", "second"), 1):
            assert "has been made" in await asked(thread, f"spawn {part}")
            await until_states(thread, *["ended"] * number)
        assert FULL in await asked(thread, "spawn third")

        # A person, or a program, sees them and closes one.
        first, second = await thread.children()
        assert [(await child.row()).state for child in (first, second)] == ["open", "open"]
        await second.close()
        await until_states(thread, "ended")
        assert "has been made" in await asked(thread, "spawn third")
        await until_states(thread, "ended", "ended")

        # Their parent has one close itself.
        assert FULL in await asked(thread, "spawn fourth")
        assert "The message goes" in await asked(thread, f"tell {first.id} Close yourself.")
        await until_states(thread, "ended")
        assert (await first.row()).state == "closed"

        # One that is parked keeps its place too.
        assert "has been made" in await asked(thread, "spawn fourth")
        await until_states(thread, "ended", "parked")
        assert FULL in await asked(thread, "spawn fifth")
        await runtime.thread(cast.thread("fourth")).close()
        await until_states(thread, "ended")
        assert here(next(request for part, request in cast.asked if part == "first")) == first.id
