"""Small rows, signals, commits and the like for tests of stores and queues."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from torpor.core.codec import decode_message, encode
from torpor.core.effects import Invoke
from torpor.core.messages import Said, Text, text_of
from torpor.core.record import SliceRecord
from torpor.core.signals import AnySignal, Due, SaidSignal
from torpor.ports import Commit, Row, Snapshot, StoredMessage

_numbers = itertools.count(1)


def fresh(kind: str = "thread") -> str:
    """A name that no other test uses, of the length of a thread's id."""
    return f"{kind}{next(_numbers):0{20 - len(kind)}d}"


def thread_row(thread: str = "", **fields: Any) -> Row:
    """The row of a new thread."""
    return Row(thread=thread or fresh(), **{"agent": "adder", "created": 1.5, "updated": 1.5, **fields})


def said(thread: str, text: str = "hello", id: str = "", due: float = 0.0) -> SaidSignal:
    """Text for a thread, under an id of its own."""
    return SaidSignal(thread, id or fresh("said/"), 2.5, due=due, parts=(Text(text),))


def timer(thread: str, due: float, id: str = "") -> Due:
    """A timer of a thread."""
    return Due(thread, id or fresh("due/"), 2.5, due=due, call="call")


def invoke(id: str = "", arguments: str = "{}") -> Invoke:
    """An effect."""
    return Invoke(id or fresh("invoke/"), "call", "add", arguments)


def message(position: int, text: str) -> StoredMessage:
    """A message with a text, as it is stored."""
    return StoredMessage(position, encode(Said(3.5, (Text(text),))))


def texts(history: Sequence[StoredMessage] | None) -> list[str]:
    """The texts of such messages."""
    assert history is not None
    found = [decode_message(stored.body) for stored in history]
    return [text_of(each.parts) for each in found if isinstance(each, Said)]


def ids(signals: Sequence[AnySignal]) -> list[str]:
    """The ids of signals."""
    return [signal.id for signal in signals]


def commit_on(snapshot: Snapshot, *added: str, commit_id: str = "", **fields: Any) -> Commit:
    """A commit that adds texts to what was loaded and absorbs its signals.

    ``fields`` are fields of ``Commit``; ``row`` may be a mapping of fields to change in the row.
    """
    row, length = snapshot.row, snapshot.row.length
    changes = {"length": length + len(added), **fields.pop("row", {})}
    whole: dict[str, Any] = {
        "thread": row.thread,
        "base": row.version,
        "commit_id": commit_id or fresh("commit"),
        "row": msgspec.structs.replace(row, **changes),
        "messages": tuple(message(length + place, text) for place, text in enumerate(added, 1)),
        "absorbed": dict.fromkeys(ids(snapshot.signals), "absorbed"),
        **fields,
    }
    return Commit(**whole)


def slice_record(thread: str, version: int = 0, **fields: Any) -> SliceRecord:
    """The record of a slice."""
    return SliceRecord(thread, version, **fields)
