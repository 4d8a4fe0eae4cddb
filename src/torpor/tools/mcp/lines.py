"""Lines of JSON-RPC as servers write them: whatever else is among them, each is bounded and judged alone."""

import json
import re
import sys
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCNotification, jsonrpc_message_adapter
from mcp_types.jsonrpc import PARSE_ERROR

from torpor.core.text import cleaned
from torpor.tools.mcp.faults import TooLarge

EDGE = 4_096
"""Bytes kept of the beginning and of the end of a line that is too long: its id is in one of them."""
SHOWN = 200
"""Characters of a line of noise that are kept."""
EXAMPLES = 3
BEGINNINGS, READ_AGAIN = 64, 2
"""Where a message may begin anywhere in a line: at how many places one is looked for, and how often
the line is read for that in all."""

MOST_VALUES = 200_000
"""In one message. What is made of a value takes much more time and memory than its bytes do."""

_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")'
_FIRST = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb"\s*,")
_LAST = re.compile(rb",\s*" + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_TO_NEXT = re.compile(
    rb'(?:[^",{\[]++|"[^"\\]*+(?:\\.?[^"\\]*+)*+(?:"|\Z))*+(?:[,{\[]|\Z)', re.DOTALL
)  # all up to where the next value begins, and whole strings on the way
_BEGINNING = re.compile(r'\{\s*"(?:jsonrpc|result|error|id|method)"\s*:')


class Overlong(NamedTuple):
    """What is left of a line of more bytes than are taken."""

    head: bytes
    tail: bytes
    size: int

    @property
    def id(self) -> int | str | None:
        """The id of the message that the line was, where it can be told."""
        found = _FIRST.search(self.head) or _LAST.search(self.tail)
        try:
            return None if found is None else json.loads(found[1])
        except ValueError:  # bytes that are in no JSON
            return None


class Lines:
    """Cuts what comes in into lines of at most ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._head = b""
        self._tail = b""
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | Overlong]:
        """The lines that end within this chunk."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._add(piece)
            yield self._take()
        self._add(rest)

    def end(self) -> bytes | Overlong:
        """What came after the last line."""
        return self._take()

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._limit:
            self._parts.append(piece)
            return
        if self._parts or not self._head:
            whole = b"".join((*self._parts, piece[:EDGE]))
            self._head, self._tail, self._parts = whole[:EDGE], whole[-EDGE:], []
        self._tail = (self._tail + piece[-EDGE:])[-EDGE:]

    def _take(self) -> bytes | Overlong:
        if self._size > self._limit:
            line: bytes | Overlong = Overlong(self._head, self._tail, self._size)
        else:
            line = b"".join(self._parts)
        self._parts, self._head, self._tail, self._size = [], b"", b"", 0
        return line


class Noise:
    """What a server wrote where only messages may stand: how often, and the latest."""

    def __init__(self) -> None:
        self.count = 0
        self.latest: deque[str] = deque(maxlen=EXAMPLES)

    def add(self, line: bytes) -> None:
        """Count a line, and keep its beginning."""
        self.count += 1
        words = " ".join(line[: 2 * SHOWN].decode("utf-8", "replace").split())
        self.latest.append("".join(filter(str.isprintable, words))[:SHOWN])

    def __str__(self) -> str:
        if not self.count:
            return ""
        return f"{self.count} lines on its output are no messages, such as {self.latest[-1]!r}"


def read_line(line: bytes, noise: Noise) -> list[JSONRPCMessage]:
    """The messages of a line. What is none is noise; an answer that breaks the rules fails its call.

    Progress without a finite number is left out: the SDK ends the connection over it.
    """
    return [message for message in _read_line(line, noise) if not _is_endless(message)]


def _read_line(line: bytes, noise: Noise) -> list[JSONRPCMessage]:
    if not line.strip():
        return []
    many = sum(map(line.count, (b",", b"{", b"["))) > MOST_VALUES
    if many and _has_too_many(line):
        noise.add(line)
        return _unreadable(line, TooLarge(f"the answer has more than {MOST_VALUES:,} values"))
    try:
        return [jsonrpc_message_adapter.validate_json(line, by_name=False)]
    except ValueError:
        pass
    try:
        value = _value(line.decode("utf-8", "replace"), noise, anywhere=not many)
    except (ValueError, RecursionError):
        noise.add(line)
        return _unreadable(line)
    found = [_message(one) for one in (value if isinstance(value, list) else [value])]
    if not all(found):
        noise.add(line)
    return [message for message in found if message is not None]


def _is_endless(message: JSONRPCMessage) -> bool:
    if not isinstance(message, JSONRPCNotification) or message.method != "notifications/progress":
        return False
    told = message.params or {}
    total = told.get("total")
    return not (_is_finite(told.get("progress")) and (total is None or _is_finite(total)))


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def too_large(id: int | str | None, limit: int, size: int) -> list[JSONRPCMessage]:
    """What a call gets in place of an answer that was too long; nothing if it cannot be told which call."""
    fault = TooLarge(f"the answer has {size:,} bytes, and {limit:,} are taken")
    return [] if id is None else [failed(id, fault)]


def failed(id: int | str, fault: Exception) -> JSONRPCError:
    """What a call gets in place of an answer: the fault is raised where it waits."""
    return JSONRPCError(
        jsonrpc="2.0", id=id, error=ErrorData(code=PARSE_ERROR, message=str(fault), data=fault)
    )


def _has_too_many(line: bytes) -> bool:
    return next(islice(_TO_NEXT.finditer(line), MOST_VALUES + 1, None), None) is not None


def _unreadable(line: bytes, fault: Exception | None = None) -> list[JSONRPCMessage]:
    """What is no JSON or not to be read, but has the outside of an answer, fails its call."""
    edges = Overlong(line[:EDGE], line[-EDGE:], len(line))
    if edges.id is None or b'"method"' in edges.head:
        return []
    if fault is not None:
        return [failed(edges.id, fault)]
    error = ErrorData(
        code=PARSE_ERROR, message="its answer cannot be read: it is nested too deeply, or no JSON"
    )
    return [JSONRPCError(jsonrpc="2.0", id=edges.id, error=error)]


def _value(text: str, noise: Noise, *, anywhere: bool) -> Any:
    """The JSON of a line; ``anywhere``: also where other text stands before or after it."""
    begin = text.lstrip()[:1]
    if begin in ("{", "["):
        try:
            return cleaned(json.loads(text, parse_constant=_nothing))
        except json.JSONDecodeError:
            pass
    left = READ_AGAIN * len(text)
    for found in islice(_BEGINNING.finditer(text), BEGINNINGS if anywhere else 0):
        try:
            value, _ = json.JSONDecoder(parse_constant=_nothing).raw_decode(text, found.start())
        except json.JSONDecodeError as error:
            left -= _read(text, error) - found.start()
            if left <= 0:
                break
            continue
        noise.add(text[: found.start()].encode("utf-8", "replace"))
        return cleaned(value)
    raise ValueError("no JSON object")


def _read(text: str, error: json.JSONDecodeError) -> int:
    """How far a text was read until it was found to be no JSON."""
    return len(text) if error.msg.startswith("Unterminated string") else error.pos


def _nothing(_: str) -> None:
    """JSON has no NaN and no infinities."""


def _message(value: object) -> JSONRPCMessage | None:
    if not isinstance(value, dict):
        return None
    try:
        return jsonrpc_message_adapter.validate_python({**value, "jsonrpc": "2.0"}, by_name=False)
    except ValueError:
        pass
    id = value.get("id")
    if "method" in value or isinstance(id, bool) or not isinstance(id, int | str):
        return None
    error = value.get("error")
    words = error if isinstance(error, str) else error.get("message") if isinstance(error, dict) else None
    told = f": {words[:1000]}" if isinstance(words, str) else ""
    text = f"its answer is no valid JSON-RPC{told}"
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=PARSE_ERROR, message=text))
