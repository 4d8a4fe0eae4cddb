"""What is read back from a store: bytes of rows and segments, whole or damaged."""

from collections.abc import Callable
from typing import Any

import msgspec

from tests.fuzz.bounds import Target
from torpor.core import codec
from torpor.core.errors import Broken, Refused, TorporError, Unavailable
from torpor.core.messages import By, Happened, Noted, Requested, Result, Said, Text, Turn
from torpor.core.parts import OpenWait
from torpor.core.record import SliceRecord
from torpor.core.signals import Finished, HappenedSignal, SaidSignal
from torpor.core.thread import Head, OpenCall, evolve
from torpor.mcp.tickets import Ticket
from torpor.ports import Row
from torpor.runtime.explain import Known, explain
from torpor.runtime.questions import asked
from torpor.stores.packing import pack, unpack

DECODERS: tuple[Callable[[bytes], Any], ...] = (
    codec.decode_message,
    codec.decode_signal,
    codec.decode_effect,
    codec.decode_record,
    codec.decode_head,
)


def rows(data: bytes) -> None:
    """The bytes of one row. What is read is written again as the same, and can be looked at."""
    if not data:
        return
    try:
        found = DECODERS[data[0] % len(DECODERS)](data[1:])
    except (Broken, Unavailable):
        return
    assert codec.encode(found) == codec.encode(DECODERS[data[0] % len(DECODERS)](codec.encode(found)))
    if isinstance(found, Head):
        _looked_at(data[1:])


def _looked_at(head: bytes) -> None:
    row = Row(thread="T", agent="a", head=head, length=2)
    try:
        asked(row)
        explain(
            Known(
                row=row, head=codec.decode_head(head), inbox=[], outbox=[], now=1.0, last=None, agents=("a",)
            )
        )
    except TorporError:
        pass


def segments(data: bytes) -> None:
    """Packed rows."""
    try:
        found = unpack(data, list[bytes])
    except Broken:
        return
    assert unpack(pack(found), list[bytes]) == found


def tickets(data: bytes) -> None:
    """What clients hold of a wait."""
    try:
        found = Ticket.read(data.decode("utf-8", "replace"))
    except Refused:
        return
    assert Ticket.read(found.text) == found


BY = By("tool", "http://127.0.0.1:1", "callback", "k1", "d" * 64)
MESSAGES = (
    Said(1.0, (Text("hi"),), "said/1", BY),
    Turn(at=2.0, parts=(Text("fine"),), upto=1, ordinal=0),
    Result(3.0, "c", (Text("done"),)),
    Happened(4.0, "c", "watch", "{}", (Text("tick"),)),
    Noted(
        5.0, Requested(OpenWait("T.c.choice", "choice", "c", "pick", 5.0, choices=("a", "b"), default="1"))
    ),
)
HEAD = Head(length=2, pending={"c": OpenCall("build", 2, server="http://127.0.0.1:1")})
CHOOSING = evolve(HEAD, MESSAGES[-1])
SIGNALS = (
    SaidSignal("T", "said/1", 1.0, parts=(Text("hi"),)),
    Finished("T", "c/result/1", 1.0, call="c", parts=(Text("x"),)),
    HappenedSignal("T", "c/1", 1.0, call="c", parts=(Text("x"),)),
)
RECORD = SliceRecord(thread="T", version=1)


TARGETS = (
    Target(
        "rows",
        rows,
        (
            *(b"\x00" + codec.encode(one) for one in MESSAGES),
            *(b"\x01" + codec.encode(one) for one in SIGNALS),
            b"\x03" + codec.encode(RECORD),
            b"\x04" + codec.encode(HEAD),
            b"\x04" + codec.encode(CHOOSING),
        ),
    ),
    Target("segments", segments, (pack([codec.encode(one) for one in MESSAGES]), pack([]))),
    Target("tickets", tickets, (Ticket("T", "said/1", began=1.0).text.encode(), msgspec.msgpack.encode("x"))),
)
