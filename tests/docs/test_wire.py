"""What the page for tool authors shows is what goes over the wire."""

from pathlib import Path

import pytest

from tests.docs import wire
from tests.docs.pages import page


@pytest.mark.slow
async def test_the_page_shows_what_goes_over_the_wire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = page(wire.PAGE).blocks("http")
    said = await wire.conversation(wire.server_of_the_page())
    assert len(shown) == len(said)
    for block, text in zip(shown, said, strict=True):
        assert block.text == text, f"{block}: run `python -m tests.docs.wire`"


def test_the_server_of_the_page_has_thirty_lines() -> None:
    code = [line for line in page(wire.PAGE).blocks("python")[0].text.split("\n") if line.strip()]
    assert len(code) <= 30
