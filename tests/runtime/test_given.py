"""Whatever text a person gives is kept without lone surrogates or refused in words, by every store."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from torpor import Agent, Refused, Runtime
from torpor.core.messages import File, Said, Text
from torpor.models import ScriptedModel

BAD = "a\ud800b"
KEPT = "a\ufffdb"
SOON = 20.0


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


def runtime_of(store: str) -> Runtime:
    model = ScriptedModel(lambda request: f"echo {request.text}")
    return Runtime(store, agents=[Agent("echo", model=model)], listen=None)


async def test_lone_surrogates_are_kept_as_replacement_characters(store: str) -> None:
    async with runtime_of(store) as runtime:
        thread = await runtime.start(
            "echo",
            [Text(BAD), File(BAD, text=BAD)],
            owner=BAD,
            user_id=BAD,
            context={BAD: [BAD]},
        )
        assert KEPT in (await thread.reply(SOON)).text
        said = next(message for message in await thread.history() if isinstance(message, Said))
        assert said.parts == (Text(KEPT), File(KEPT, text=KEPT))
        [row] = await runtime.threads(owner=BAD)
        assert (row.thread, row.owner, row.user_id) == (thread.id, KEPT, KEPT)
        assert row.context == f'{{"{KEPT}": ["{KEPT}"]}}'
        assert await runtime.threads(agent=BAD, purpose=BAD, after=BAD) == []


REFUSED: dict[str, Callable[[Runtime], Awaitable[Any]]] = {
    "No agent 'a.ud800b' is known": lambda runtime: runtime.start(BAD, "hello"),
    "A thread id is 1 to 64 letters": lambda runtime: runtime.start("echo", "hello", thread=BAD),
    "There is no tier": lambda runtime: runtime.start("echo", "hello", tier=BAD),
    "context must have a JSON form": lambda runtime: runtime.start("echo", "hello", context=object()),
    "There is no thread 'a.ud800b'": lambda runtime: runtime.thread(BAD).send("hello"),
    "There is no thread": lambda runtime: runtime.thread(BAD).reply(0),
    "There is no thread 'a": lambda runtime: runtime.thread(BAD).explain(),
    "There is no thread 'a.": lambda runtime: runtime.thread(BAD).records(),
    "There is no thread 'a.u": lambda runtime: runtime.thread(BAD).history(),
    "There is no thread 'a.ud": lambda runtime: runtime.thread(BAD).close(),
    "key has at most 200 printable ASCII characters": lambda runtime: runtime.thread("t").send("x", key=BAD),
    "There is no mode": lambda runtime: runtime.thread("t").send("x", BAD),
    "Words are a text, or a list of Text": lambda runtime: runtime.start("echo", [b"x"]),  # type: ignore[list-item]
    "The field text of words must be text": lambda runtime: runtime.start("echo", [Text(5)]),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("says", REFUSED)
async def test_what_cannot_be_kept_is_refused_in_words(says: str, store: str) -> None:
    async with runtime_of(store) as runtime:
        await runtime.start("echo", thread="t")
        with pytest.raises(Refused, match=says):
            await REFUSED[says](runtime)
        assert [row.thread for row in await runtime.threads()] == ["t"]


async def test_an_agent_that_no_one_can_be_is_refused_also_where_none_is_known(store: str) -> None:
    async with Runtime(store, listen=None, workers=0) as runtime:
        with pytest.raises(Refused, match="1 to 100 printable characters"):
            await runtime.parts.threads.start(BAD, [Text("hello")], known_only=False)


async def test_a_state_that_there_is_not_is_refused() -> None:
    async with runtime_of("memory:") as runtime:
        begun = await runtime.start("echo")
        assert [row.thread for row in await runtime.threads(state="open")] == [begun.id]
        with pytest.raises(Refused, match=r"one of open, parked, stopped, closed, .*not 'bogus'"):
            await runtime.threads(state="bogus")
        with pytest.raises(Refused, match="A thread's state is one of"):
            await runtime.threads(state=BAD)
