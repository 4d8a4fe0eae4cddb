"""Every kind of message, signal and effect, and every public name, stands in the documents."""

import re
from typing import get_args

import pytest

import torpor
from tests.docs.pages import page, pages
from torpor import models
from torpor.core.effects import Effect
from torpor.core.messages import Message, Note
from torpor.core.signals import AnySignal
from torpor.tools import server

VOCABULARY = page("docs/vocabulary.md").text
UNIONS = {"message": Message, "noted": Note, "signal": AnySignal, "effect": Effect}
KINDS = [
    (word, str(kind.__struct_config__.tag)) for word, union in UNIONS.items() for kind in get_args(union)
]
WORDS = "\n".join(one.text for one in pages() if one.name.startswith(("docs/", "README")))


@pytest.mark.parametrize(("word", "kind"), KINDS)
def test_a_kind_stands_beside_its_word(word: str, kind: str) -> None:
    row = re.search(rf"^\| \*\*{word}\*\* \|.*$", VOCABULARY, re.MULTILINE)
    assert row is not None, f"{word!r} is not in the vocabulary"
    assert f"*{kind}*" in row[0], f"the vocabulary's {word!r} does not name {kind!r}"


def test_the_vocabulary_names_no_kind_that_is_not_there() -> None:
    known = {kind for _, kind in KINDS}
    for word in UNIONS:
        row = re.search(rf"^\| \*\*{word}\*\* \|.*$", VOCABULARY, re.MULTILINE)
        assert row is not None
        assert set(re.findall(r"(?<!\*)\*(\w+)\*(?!\*)", row[0])) <= known


@pytest.mark.parametrize(
    "name", [*torpor.__all__, *models.__all__, *server.__all__, *torpor.Agent("a", model="openai:b").__dict__]
)
def test_a_public_name_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", WORDS), f"{name} is in no page"
