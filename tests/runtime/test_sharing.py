"""Live events between processes, as far as it needs none: whom others watch."""

from collections.abc import Callable, Sequence

import pytest

from torpor.core.chunks import TextDelta
from torpor.ports import LiveEvent
from torpor.runtime import sharing
from torpor.runtime.sharing import SharedLive


class Air:
    """A wire between several in one process; keeps what was told."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._told: list[Callable[[str], None]] = []

    def start(self, told: Callable[[str], None]) -> None:
        self._told.append(told)

    async def tell(self, words: Sequence[str]) -> None:
        self.words += words
        for word in words:
            for told in self._told:
                told(word)

    async def close(self) -> None:
        self._told.clear()


async def watch(live: SharedLive, thread: str) -> None:
    """Say once that somebody watches."""
    await live._say([sharing.Told(live._process, watched=(thread,))])


async def test_what_streams_elsewhere_is_passed_on_to_who_watches() -> None:
    air = Air()
    here, there = SharedLive(air, "here"), SharedLive(air, "there")
    there.listen()
    await watch(here, "t")
    assert (there.watched("t"), there.watched("other")) == (True, False)
    there.streamed("t", TextDelta("Hel"))
    there.streamed("t", TextDelta("lo"))
    there.publish("other", LiveEvent("text", "unheard"))
    (telling,) = there._tasks
    await telling
    assert [word for word in air.words if "text" in word] == [
        '{"by":"there","thread":"t","kind":"text","text":"Hello","number":1}'
    ]
    await there.close()


async def test_whom_nobody_watches_any_more_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "WANTED", 0.0)
    air = Air()
    here, there = SharedLive(air, "here"), SharedLive(air, "there")
    there.listen()
    for number in range(50):
        await watch(here, f"t{number}")
    assert len(there._wanted) < 3
    assert not there.watched("t0")
