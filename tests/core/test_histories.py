"""Random lives of threads: every law holds after every slice."""

from hypothesis import given

from tests.core.histories import Move, live, lives, searched


@searched
@given(lives)
def test_every_law_holds_after_every_slice_of_a_random_life(life: tuple[str, int, list[Move], bool]) -> None:
    live(*life)
