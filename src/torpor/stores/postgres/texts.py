"""Values on their way to PostgreSQL and back, where its types and ours differ.

Its texts hold no NUL, so that one is written as U+001A and ``0``, and U+001A itself doubled. Lone surrogates
become U+FFFD, as everywhere. All whole numbers are sent as ``bigint``: statements are prepared by the types
of their parameters, which should not depend on values.
"""

import re
from typing import Any

from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap
from psycopg.types.array import ListBinaryDumper
from psycopg.types.numeric import FloatBinaryDumper, Int8BinaryDumper
from psycopg.types.string import StrBinaryDumper, StrDumper, TextBinaryLoader, TextLoader

from torpor.core.text import clean

_MARK = "\x1a"
_MARKED = re.compile("\x1a(.)", re.DOTALL)


def escaped(text: str) -> str:
    """A text as it may be stored."""
    if _MARK in text:
        text = text.replace(_MARK, _MARK * 2)
    return text.replace("\0", f"{_MARK}0") if "\0" in text else text


def unescaped(text: str) -> str:
    """A stored text as it was given."""
    return _MARKED.sub(lambda pair: "\0" if pair[1] == "0" else pair[1], text) if _MARK in text else text


def _encoded(text: str) -> bytes:
    try:
        return escaped(text).encode()
    except UnicodeEncodeError:
        return escaped(clean(text)).encode()


class TextToBinary(StrBinaryDumper):
    """Text to the server."""

    def dump(self, obj: str) -> Buffer:
        return _encoded(obj)


class TextToText(StrDumper):
    """Text to the server, in a list that is not binary."""

    def dump(self, obj: str) -> Buffer:
        return _encoded(obj)


class TextFromBinary(TextBinaryLoader):
    """Text from the server."""

    def load(self, data: Buffer) -> str:
        return unescaped(str(data, "utf-8"))


class TextFromText(TextLoader):
    """Text from the server, in a result that is not binary."""

    def load(self, data: Buffer) -> str:
        return unescaped(str(data, "utf-8"))


def adapt(adapters: AdaptersMap) -> None:
    """Make a connection's values pass as above."""
    adapters.register_dumper(list, ListBinaryDumper)
    adapters.register_dumper(str, TextToText)
    adapters.register_dumper(str, TextToBinary)
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(float, FloatBinaryDumper)
    loaders: list[Any] = [TextFromText, TextFromBinary]
    for loader in loaders:
        adapters.register_loader("text", loader)
