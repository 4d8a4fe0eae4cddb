"""How long a thread waits for the tools of a server that it needs first."""

import pytest

from torpor.core.definition import Definition
from torpor.core.errors import Unavailable
from torpor.core.messages import Equipped, Noted
from torpor.core.step import Step
from torpor.core.thread import Exchange, Head
from torpor.runtime.equip import Equipment
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import FakeClock


class Starting:
    """A server that is still starting after some seconds."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds

    async def manifest(self, server: str, user: str = "") -> bytes:
        self._clock.advance(self._seconds)
        raise Unavailable("still starting")

    def has_changed(self, server: str, hash: str, user: str = "") -> bool:
        return False


class Member:
    def __init__(self, server: str) -> None:
        self.servers = (server,)


@pytest.mark.parametrize(
    ("server", "seconds", "again"),
    [("mcp:slow", 5.0, 0.0), ("mcp:crashed", 0.5, 1.5), ("https://tools.test", 5.0, 10.0)],
)
async def test_how_long_the_first_exchange_waits(server: str, seconds: float, again: float) -> None:
    clock = FakeClock()
    began = clock.now()
    step = Step("thread", Head(exchange=Exchange(since=began)), began, Definition("clerk", "m"))
    found = await Equipment(MemoryStore(clock), Starting(clock, seconds), clock).equip(Member(server), step)  # type: ignore[arg-type]
    assert found == (began + again if again else 0.0)
    went = [Noted(began, Equipped(server, "", "still starting"), step.trace)]
    assert step.messages == ([] if again else went)
