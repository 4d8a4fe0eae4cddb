"""A history that is too long to be loaded with its thread is read where a model is asked, and only there."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from torpor import Agent
from torpor.core.errors import Unavailable
from torpor.core.messages import Text
from torpor.core.request import Request
from torpor.models import ScriptedModel, fail
from torpor.ports import LOADED
from torpor.runtime.scan import PAGE, PAUSE, scan
from torpor.stores.memory import MemoryStore
from torpor.testing.samples import thread_row
from torpor.wiring import Parts, open_parts

SPOKEN = LOADED // 2 + 2


async def say(parts: Parts, words: str = "Go on.") -> None:
    """Speak to the thread, and let it answer."""
    await parts.threads.say("t", (Text(words),))
    await run(parts)


async def run(parts: Parts) -> None:
    """Run slices until nothing is left to do."""
    worker = parts.worker(1)
    while await worker.run_once() or parts.dispatcher.busy:
        await asyncio.sleep(0)


async def long(parts: Parts) -> None:
    """A thread whose history is longer than what is loaded with it."""
    await parts.threads.start("a", (Text("Begin."),), thread="t")
    await run(parts)
    for _ in range(SPOKEN):
        await say(parts)


@pytest.fixture(params=["memory:", "sqlite:"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 't.db'}" if request.param == "sqlite:" else "memory:"


async def test_a_long_history_is_shown_the_same_whether_it_was_at_hand_or_is_read(store: str) -> None:
    model = ScriptedModel(["ok"], loop=True)
    async with open_parts(store, [Agent("a", model=model)]) as parts:
        await long(parts)
        parts.kit.hot.clear()
        assert (await parts.store.load("t")).history is None
        await say(parts)
        cold, warm = model.requests[-1].items, model.requests[-2].items
        assert len(cold) == len(warm) + 2
        assert cold[: len(warm)] == warm
        await say(parts)
        assert model.requests[-1].items[: len(cold)] == cold


async def test_a_try_that_failed_leaves_nothing_behind_in_what_the_next_one_is_shown() -> None:
    failures = [Unavailable("busy")]

    def reply(_: Request) -> Any:
        return fail(failures.pop()) if failures and len(model.requests) == SPOKEN + 2 else "ok"

    model = ScriptedModel(reply)
    async with open_parts("memory:", [Agent("a", model=model)]) as parts:
        await long(parts)
        await say(parts)
        assert not failures
        await parts.threads.nudge("t")
        await run(parts)
        failed, answered = list(model.requests)[-2:]
        assert (answered.items, answered.hash) == (failed.items, failed.hash)
        await say(parts)
        assert model.requests[-1].items[: len(failed.items)] == failed.items


async def test_a_slice_that_asks_no_model_reads_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(["ok"], loop=True)
    async with open_parts("memory:", [Agent("a", model=model)]) as parts:
        await long(parts)
        parts.kit.hot.clear()
        read: list[str] = []
        plain = parts.store.read

        async def noted(thread: str, *given: Any) -> Any:
            read.append(thread)
            return await plain(thread, *given)

        monkeypatch.setattr(parts.store, "read", noted)
        await parts.threads.stop("t")
        await run(parts)
        row = await parts.store.row("t")
        assert (row is not None and row.state, read) == ("stopped", [])
        await say(parts)
        assert read
        assert len(model.requests[-1].items) == 2 * len(model.requests) - 1


async def test_asking_what_is_open_leaves_most_of_the_time_to_others() -> None:
    class Ticking:
        """Each look at the clock takes a second."""

        def __init__(self) -> None:
            self.at = 0.0
            self.slept: list[float] = []

        def now(self) -> float:
            self.at += 1.0
            return self.at

        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)

    store, clock, asking = MemoryStore(), Ticking(), None
    for number in range(2 * PAGE + 1):
        await store.create(thread_row(f"t{number:04d}"))
    await scan(store, store, asking, ["http://tools.test"], clock)  # type: ignore[arg-type]  # nothing is open
    assert clock.slept == [PAUSE, PAUSE]
