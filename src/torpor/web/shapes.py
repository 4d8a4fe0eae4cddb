"""What the API takes and gives, as values. Stored shapes keep their fields; their tags are named ``type``."""

from base64 import b64decode
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from torpor.core.codec import decode_head
from torpor.core.errors import Refused
from torpor.core.head import Child
from torpor.core.messages import By, File, Image, Link, Message, Noted, Part, Requested, Text, text_of
from torpor.core.record import SliceRecord
from torpor.core.signals import SaidSignal
from torpor.core.views import View
from torpor.ports import Row
from torpor.runtime.explain import Explanation, Waiting
from torpor.runtime.given import context_text
from torpor.runtime.questions import Question
from torpor.runtime.replies import Entry
from torpor.runtime.threads import Receipt, Threads

CONTEXT_LIMIT = 100_000
"""Characters of a thread's context, as JSON text."""


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings shared by all that is taken."""


class TextPart(Strict, frozen=True, tag="text", tag_field="type"):
    """Words."""

    text: str


class ImagePart(Strict, frozen=True, tag="image", tag_field="type"):
    """An image; ``data`` is base64 text."""

    media_type: str
    data: str


class FilePart(Strict, frozen=True, tag="file", tag_field="type"):
    """A document; ``data`` is base64 text, ``text`` what a model without file input is shown."""

    name: str
    media_type: str = "text/plain"
    data: str = ""
    text: str = ""


class Words(Strict, frozen=True, kw_only=True):
    """What a person says: ``text``, or ``parts``."""

    text: str | None = None
    parts: list[TextPart | ImagePart | FilePart] | None = None
    tier: str = ""

    def to_parts(self) -> tuple[Part, ...]:
        """The parts to be stored; empty if nothing is said. ``Refused`` for a part that cannot be."""
        if self.text is not None and self.parts is not None:
            raise Refused("Give text or parts, not both.")
        if self.text is not None:
            return (Text(self.text),)
        return tuple(_part(given) for given in self.parts or ())


class NewThread(Words, frozen=True, kw_only=True):
    """A thread to be started, with its first words if there are any."""

    agent: str
    thread: str = ""
    """Its id; made up if it is left out."""
    owner: str = ""
    user_id: str = ""
    context: Any = None
    """Any JSON, given to its tools."""

    def context_text(self) -> str:
        """The context as it is stored."""
        text = context_text(self.context)
        if len(text) > CONTEXT_LIMIT:
            raise Refused(f"The context has more than {CONTEXT_LIMIT} characters.")
        return text


class Saying(Words, frozen=True, kw_only=True):
    """Words to a thread. ``mode``: ``steer``, ``queue`` or ``interrupt``."""

    mode: str = "steer"


class ForkWanted(Strict, frozen=True, kw_only=True):
    """A fork: from which position of the thread on, its last one where none is given."""

    at: int | None = None


class Answering(Strict, frozen=True, kw_only=True):
    """An answer to a wait. For a choice its text or place, for a form an object or ``decline``, for an
    approval true or false, for an authorization true (it is done); null dismisses all but an approval.
    """

    value: str | int | bool | dict[str, Any] | None
    comment: str = ""


class TicketWanted(Strict, frozen=True):
    """A ticket for the events of a thread."""

    thread: str


class Ticket(msgspec.Struct, frozen=True):
    """Good for one GET of the thread's events, as ``?ticket=``, within so many seconds."""

    ticket: str
    seconds: float


class ThreadView(msgspec.Struct, frozen=True, kw_only=True):
    """A thread's row."""

    id: str
    agent: str
    owner: str
    user_id: str
    context: Any
    tier: str
    purpose: str
    """``root``, ``child``, ``event`` (works on events) or ``compaction`` (writes a summary)."""
    root: str = ""
    parent: str = ""
    state: str
    owes: bool
    waits: int
    attempt: int
    not_before: float
    created: float
    updated: float
    title: str
    length: int
    """The position of its last message."""
    version: int


class Started(ThreadView, frozen=True, kw_only=True):
    """A thread that was started, and the receipt of its first words."""

    receipt: Receipt | None


class Received(msgspec.Struct, frozen=True):
    """Words that have come and that the agent has not read yet."""

    signal: str
    at: float
    text: str
    mode: str
    by: By


class Found(ThreadView, frozen=True, kw_only=True):
    """A thread, what was said to it and is not read yet, and what it waits for."""

    received: list[Received]
    explanation: Explanation
    ancestors: list[str] = []
    """Threads from the root to the parent."""
    lineage: list[Link] = []
    """The histories that it continues, from the oldest on."""
    children: dict[str, Child] = {}
    """Its living children."""
    heirs: dict[str, int] = {}
    """Forks that continue its history, each from a position on."""


class Listing(msgspec.Struct, frozen=True):
    """A page of threads. ``after`` asks for the next page; null: this is the last."""

    threads: list[ThreadView]
    after: str | None


class Questions(msgspec.Struct, frozen=True):
    """What people are asked for a thread now, oldest first."""

    waits: list[Question]


class Page(msgspec.Struct, frozen=True):
    """A page of messages, each with its position. ``after`` asks for the next page."""

    messages: list[dict[str, Any]]
    after: int
    more: bool


class Records(msgspec.Struct, frozen=True):
    """A page of the records of a thread's slices, oldest first. ``after`` asks for the next page."""

    records: list[SliceRecord]
    after: int
    more: bool


class ShownView(msgspec.Struct, frozen=True):
    """What a tool server shows in one place beside a thread; ``content`` is an object."""

    type: str
    content: Any
    seq: int
    at: float


class Views(msgspec.Struct, frozen=True):
    """What tool servers show beside a thread now, by type."""

    views: list[ShownView]


class Done(msgspec.Struct, frozen=True):
    """A command was stored and will be followed."""

    thread: str
    command: str


class Health(msgspec.Struct, frozen=True):
    """The server answers. ``proof`` answers a challenge with the token, ``store`` with the store's keys.

    So clients know whom they talk to, and processes whether they share a store.
    """

    status: str
    version: str
    proof: str = ""
    store: str = ""


V = TypeVar("V", bound=ThreadView)


async def received(threads: Threads, thread: str) -> list[Received]:
    """What was said to a thread and is not read yet, in order."""
    said = [signal for signal in await threads.store.inbox(thread) if isinstance(signal, SaidSignal)]
    return [Received(one.id, one.at, text_of(one.parts), one.mode, one.by) for one in said]


async def look_up(threads: Threads, thread: str) -> Found:
    """A thread as it is now. ``UnknownThread`` if there is none."""
    row = await threads.row(thread)
    waiting = await threads.explain(thread)
    head = decode_head(row.head, row.shape)
    return view(
        row,
        Found,
        received=await received(threads, thread),
        explanation=waiting,
        ancestors=list(head.ancestors),
        lineage=list(head.lineage),
        children=head.children,
        heirs=head.heirs,
    )


def view(row: Row, kind: type[V], **more: Any) -> V:
    """A row as it is given, with what a kind of view has more."""
    return kind(
        id=row.thread,
        agent=row.agent,
        owner=row.owner,
        user_id=row.user_id,
        context=msgspec.json.decode(row.context) if row.context else None,
        tier=row.tier,
        purpose=row.purpose,
        root=row.root,
        parent=row.parent,
        state=row.state,
        owes=row.owes,
        waits=row.waits,
        attempt=row.attempt,
        not_before=row.not_before,
        created=row.created,
        updated=row.updated,
        title=row.title,
        length=row.length,
        version=row.version.counter,
        **more,
    )


def shown_view(kept: View) -> ShownView:
    """A view as it is given."""
    return ShownView(kept.type, msgspec.json.decode(kept.content), kept.seq, kept.at)


def shown(entry: Entry) -> dict[str, Any]:
    """A message as it is given: position, ``type``, its fields, and its words (if any) as ``text``.

    Addresses at which tool servers wait for people are left out: they are for the time of the wait only.
    """
    message: dict[str, Any] = _renamed(msgspec.to_builtins(entry.message))
    if isinstance(entry.message, Noted) and isinstance(entry.message.note, Requested):
        message["note"]["wait"].pop("url", None)
    words = text_of(getattr(entry.message, "parts", ()))
    return {"position": entry.position, **message, **({"text": words} if words else {})}


def entry_of(given: dict[str, Any]) -> Entry:
    """The entry that ``shown`` was made of."""
    added = ("position",) if given["type"] == "summary" else ("position", "text")
    fields = {name: field for name, field in given.items() if name not in added}
    return Entry(given["position"], msgspec.convert(_restored(fields, "k"), Message))


def _renamed(found: Any) -> Any:
    if isinstance(found, list | tuple):
        return [_renamed(item) for item in found]
    if isinstance(found, dict):
        return {"type" if name in ("k", "n") else name: _renamed(field) for name, field in found.items()}
    return found


def _restored(found: Any, tag: str) -> Any:
    """Undo ``_renamed``: notes are tagged ``n``, display segments have a ``type`` of their own."""
    if isinstance(found, list):
        return [_restored(item, tag) for item in found]
    if not isinstance(found, dict):
        return found
    inner = {"note": "n", "display": "type"}
    return {
        tag if name == "type" else name: _restored(field, inner.get(name, "k"))
        for name, field in found.items()
    }


def _part(given: TextPart | ImagePart | FilePart) -> Part:
    match given:
        case TextPart():
            return Text(given.text)
        case ImagePart():
            return Image(_base64(given.data), given.media_type)
        case FilePart():
            return File(given.name, given.media_type, _base64(given.data) if given.data else "", given.text)


def _base64(text: str) -> str:
    try:
        b64decode(text, validate=True)
    except ValueError:
        raise Refused("The data of an image or file must be base64 text.") from None
    return text


def page(entries: Sequence[Entry], after: int, limit: int) -> Page:
    """Entries as a page, of which one more than ``limit`` was asked for."""
    kept = entries[:limit]
    return Page([shown(entry) for entry in kept], kept[-1].position if kept else after, len(entries) > limit)


__all__ = ["Explanation", "Receipt", "Waiting"]
