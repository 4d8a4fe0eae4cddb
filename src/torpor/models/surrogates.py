"""Mending of text that arrives in pieces: a character may be cut in two between them."""

import re

from torpor.core.text import clean

_LONE = re.compile("[\ud800-\udfff]")


class Mender:
    """Joins the halves of one character that came in two pieces; a half without its other becomes U+FFFD."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """The part of the text so far unseen that is whole."""
        if not self._held and not _LONE.search(text):
            return text
        text = self._held + text
        self._held = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self._held, text = text[-1], text[:-1]
        return clean(text)

    def rest(self) -> str:
        """What is left at the end."""
        held, self._held = self._held, ""
        return "\ufffd" if held else ""
