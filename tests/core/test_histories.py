"""Random lives of threads: every law holds after every slice."""

import pytest
from hypothesis import given

from tests.core.histories import Move, live, lives, searched
from tests.core.playing import Played
from torpor.core.messages import Detached, Happened, Sent, Turn


class Census:
    """How many of the lives had what."""

    def __init__(self) -> None:
        self.lives = 0
        self.found = dict.fromkeys(["detached", "each", "events", "cut", "sent late"], 0)

    def count(self, wake: str, played: Played) -> None:
        """Take in one life."""
        self.lives += 1
        self.found["each"] += wake == "each"
        self.found["detached"] += bool(played.all(Detached))
        self.found["events"] += bool(played.all(Happened))
        self.found["sent late"] += bool(played.all(Sent))
        self.found["cut"] += any(turn.cut for turn in played.all(Turn))

    def share(self, what: str) -> float:
        """The share of lives that had it."""
        return self.found[what] / self.lives


@pytest.mark.slow
def test_every_law_holds_after_every_slice_of_a_random_life() -> None:
    census = Census()

    @searched
    @given(lives)
    def run(life: tuple[str, int, list[Move], bool]) -> None:
        census.count(life[0], live(*life).played)

    run()
    assert all(census.share(what) > 1 / 3 for what in ("detached", "each", "events", "cut")), census.found
    assert census.share("sent late") > 1 / 20
