from hypothesis import given
from hypothesis import strategies as st

from torpor.models.surrogates import Mender


def halves(text: str) -> str:
    """Text as UTF-16 code units, each a character of its own."""
    units = text.encode("utf-16-le")
    return "".join(chr(int.from_bytes(units[at : at + 2], "little")) for at in range(0, len(units), 2))


@given(st.text(), st.integers(1, 4))
def test_any_cut_of_code_units_mends_to_the_text(text: str, size: int) -> None:
    units = halves(text)
    mender = Mender()
    fed = [mender.feed(units[at : at + size]) for at in range(0, len(units), size)]
    assert "".join(fed) + mender.rest() == text


@given(st.lists(st.text(st.characters(categories=("Cs", "Ll")))))
def test_whatever_comes_out_is_whole(pieces: list[str]) -> None:
    mender = Mender()
    fed = [mender.feed(piece) for piece in pieces]
    for text in [*fed, mender.rest()]:
        text.encode()
    assert mender.rest() == ""


def test_single_halves_become_marks() -> None:
    assert Mender().feed("a\ud83db\udf0dc") == "a\ufffdb\ufffdc"
