"""Settings files that are made to break their reader."""

from pathlib import Path

import pytest

from torpor.core.errors import Refused
from torpor.settings import LARGEST_FILE, load


@pytest.mark.parametrize(
    "text",
    [
        "store = " + "[" * 100_000,
        "store = " + "{a=" * 100_000,
        "[" * 100_000,
        '# "' + "x" * LARGEST_FILE,
        "a" * 60_000,
        "\x00",
        "lease = 1e999",
    ],
)
def test_a_file_that_cannot_be_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "torpor.toml"
    file.write_text(text)
    with pytest.raises(Refused):
        load(file, environ={})


def test_an_endless_file_is_refused() -> None:
    with pytest.raises(Refused, match="bytes"):
        load("/dev/zero", environ={})
