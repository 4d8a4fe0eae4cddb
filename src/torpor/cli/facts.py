"""Facts of a thread's life, and words between threads, in words for people."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from torpor.cli.visible import one_line
from torpor.core.messages import (
    Addressed,
    Adopted,
    Answered,
    Arrived,
    Born,
    By,
    Closed,
    Compacting,
    Detached,
    Equipped,
    Folded,
    Forked,
    Informed,
    Late,
    Moved,
    Note,
    Parked,
    Queued,
    Reported,
    Requested,
    Resumed,
    Sent,
    Spawned,
    Stopped,
    Titled,
    Uncompacted,
    Unsubscribed,
    text_of,
)

Names = Callable[[Iterable[str]], str]
"""The tools of calls, and what people were asked, by id."""

_WORDS = {
    "report": "report of {who}",
    "ended": "last words of {who}, whose exchange ended without a report",
    "parked": "{who} was set aside",
    "stopped": "{who} was stopped",
    "closed": "{who} is closed",
    "rested": "{who} has come to an end, as it has said all",
    "adopted": "{who} has lost its parent and belongs here now",
    "born": "begun by {thread}",
    "told": "message of its parent {thread}",
    "undelivered": "what was said to {thread} did not arrive",
}

_MADE_FOR = {"event": "a temporary thread for events", "compaction": "a thread that writes a summary"}


def word(reported: Reported) -> str:
    """What kind of word of another thread this is."""
    kind = "temporary thread" if reported.purpose == "event" else "child"
    form = _WORDS.get(reported.what, "{what} of {who}")
    who = f"{kind} {reported.thread}"
    return form.format(who=who, thread=reported.thread, what=reported.what)


def fact(note: Note, thread: str, names: Names) -> str:
    """A fact of the life of a thread."""
    match note:
        case Born():
            return f"began as {note.agent}{_origin(note)}"
        case Spawned() | Adopted() | Forked() | Informed() | Addressed() | Titled():
            return _of_family(note, names)
        case Requested() | Answered():
            return _of_people(note, names)
        case Folded() | Compacting() | Uncompacted():
            return _of_compaction(note)
        case Parked():
            cure = f"Say something, or `torpor nudge {thread}`."
            return f"set aside: {note.reason.rstrip('.')}. {cure}"
        case Resumed():
            return f"goes on ({note.why})"
        case Stopped() | Closed() | Moved() | Arrived():
            return _of_place(note)
        case Queued():
            return f"{source(note.by)} queued, for the end of the exchange: {one_line(text_of(note.parts))}"
        case Equipped() if not note.manifest:
            return f"goes on without the tools of {note.server}: {note.reason}"
        case Equipped():
            return f"uses the tools of {note.server}"
        case Detached() | Unsubscribed() | Late() | Sent():
            return _of_calls(note, names)


def _of_place(note: Stopped | Closed | Moved | Arrived) -> str:
    match note:
        case Moved():
            return f"goes on in {note.to}, and ended here"
        case Arrived():
            return f"came from {note.origin}"
        case _:
            ended = "stopped" if isinstance(note, Stopped) else "closed for good"
            return f"{ended}{f': {note.why}' if note.why else ''}"


def _of_calls(note: Detached | Unsubscribed | Late | Sent, names: Names) -> str:
    match note:
        case Detached():
            return f"no longer waits for {names(note.calls)} ({note.why}); results come as events"
        case Unsubscribed():
            return f"no more events of {names([note.call])} ({note.why})"
        case Late():
            return f"a late result of {names([note.call])}, kept and not shown to the model"
        case Sent():
            return f"sent, now that there was room: {names(note.calls)}"


def _origin(born: Born) -> str:
    """Where a thread comes from: its parent, and the histories it continues."""
    pieces = [f", a {born.purpose} of {born.parent}"] if born.parent else []
    if born.title:
        pieces.append(f': "{one_line(born.title)}"')
    continued = ", ".join(f"{link.thread} up to {link.upto}" for link in born.lineage)
    if continued:
        pieces.append(f"; it continues {continued}")
    return "".join(pieces)


def _of_family(note: Spawned | Adopted | Forked | Informed | Addressed | Titled, names: Names) -> str:
    match note:
        case Spawned(purpose="child"):
            title = f': "{one_line(note.title)}"' if note.title else ""
            return f"begins the child {note.child}{title}"
        case Spawned():
            what = _MADE_FOR.get(note.purpose, note.purpose)
            events = f" ({len(note.events)} of {names([note.source])})" if note.events else ""
            return f"begins {note.child}, {what}{events}"
        case Adopted():
            return f"belongs to {note.parent} now" if note.parent else "belongs to no other thread now"
        case Forked():
            return f"{note.heir} continues this history from {note.at} on"
        case Informed():
            return f"its parent was told: {note.what}"
        case Addressed():
            return f"{note.child} was sent a message and goes on"
        case Titled():
            return f'is about "{one_line(note.title)}"'


def _of_people(note: Requested | Answered, names: Names) -> str:
    if isinstance(note, Requested):
        wait = note.wait
        ends = (
            f", until {datetime.fromtimestamp(wait.deadline, UTC):%Y-%m-%d %H:%M:%S}" if wait.deadline else ""
        )
        prompt = f": {one_line(wait.prompt)}" if wait.prompt else ""
        options = f" [{' | '.join(one_line(choice, 80) for choice in wait.choices)}]" if wait.choices else ""
        return f"asks a person for {wait.kind} of {wait.name} ({wait.id}{ends}){prompt}{options}"
    value = f" {one_line(note.value)}" if note.value and note.outcome in ("chosen", "filled") else ""
    comment = f': "{one_line(note.comment)}"' if note.comment else ""
    return f"{names([note.wait])} {note.outcome}{value} ({source(note.by)}){comment}"


def _of_compaction(note: Folded | Compacting | Uncompacted) -> str:
    match note:
        case Folded():
            return f"shows long results up to {note.upto} by their beginning"
        case Compacting():
            waits = "; its model is not asked before" if note.blocking else ""
            return f"{note.child} writes a summary of all up to {note.upto}{waits}"
        case Uncompacted():
            by = f"{note.child} wrote no summary" if note.child else "no summary"
            return f"{by}: {note.reason}"


def source(by: By) -> str:
    """Who sent something, and how that was verified."""
    name = f"{by.kind} {by.id}".strip()
    return f"{name}, by {by.verified}" if by.verified else name
