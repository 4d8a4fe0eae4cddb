"""Links between pages lead somewhere, and pictures are drawings that a page may show."""

import re
from xml.etree import ElementTree as ET

import pytest

from tests.docs.pages import ROOT, Page, page, pages

PICTURES = sorted((ROOT / "docs").rglob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("page_", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page_: Page) -> None:
    for link in page_.links():
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (page_.path.parent / target).resolve() if target else page_.path
        assert file.exists(), f"{page_.name} links to {link}, which is not there"
        if anchor:
            assert anchor in page(str(file.relative_to(ROOT))).anchors(), f"{page_.name}: no heading {link}"


def test_every_page_is_linked() -> None:
    linked = {
        (page.path.parent / link.partition("#")[0]).resolve() for page in pages() for link in page.links()
    }
    unlinked = [one.name for one in pages() if one.path not in linked and one.name != "README.md"]
    assert unlinked == []


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_a_drawing_readable_in_light_and_dark(picture: object) -> None:
    text = (ROOT / "docs" / str(picture)).read_text(encoding="utf-8")
    root = ET.fromstring(text)  # our own file
    assert root.tag == f"{SVG}svg"
    assert root.find(f"{SVG}title") is not None
    assert "prefers-color-scheme: dark" in text
    assert not {element.tag for element in root.iter()} & {
        f"{SVG}script",
        f"{SVG}image",
        f"{SVG}foreignObject",
    }


def test_the_picture_of_a_wake_has_its_ten_steps() -> None:
    text = (ROOT / "docs" / "wake.svg").read_text(encoding="utf-8")
    words = [element.text for element in ET.fromstring(text).iter(f"{SVG}text")]
    assert [word for word in words if word and word.isdigit()] == [str(number) for number in range(1, 11)]
