"""The part of ``evolve`` that folds facts of a life: family, waits for people, compaction."""

from typing import TypeVar

import msgspec

from torpor.core.head import Child, Compaction, Gathered, Head, OpenCall, Subscription
from torpor.core.notes import (
    Addressed,
    Adopted,
    Answered,
    Arrived,
    Born,
    Compacting,
    Equipped,
    Folded,
    Forked,
    Informed,
    Note,
    Requested,
    Spawned,
    Titled,
    Uncompacted,
)
from torpor.core.parts import OpenWait

S = TypeVar("S", OpenCall, Subscription, OpenWait)

_change = msgspec.structs.replace


def lived(head: Head, at: float, note: Note) -> Head:
    """The head after one more fact, whose message is counted already."""
    match note:
        case Born():
            return _born(head, note)
        case Equipped():
            return _change(head, toolsets={**head.toolsets, note.server: note.manifest})
        case Requested():
            return _requested(head, note.wait)
        case Answered():
            return _answered(head, note)
        case Spawned():
            return _spawned(head, at, note)
        case Informed():
            rested = head.rested or note.what != "report"
            return _change(head, heard=True, rested=rested, last_words="")
        case Addressed():
            return _change(head, **in_state(head, note.child, "open"))
        case Adopted():
            return _change(head, parent=note.parent, ancestors=note.ancestors, rested=False)
        case Forked():
            return _change(head, heirs={**head.heirs, note.heir: note.at})
        case Titled():
            return _change(head, title=note.title)
        case Arrived():
            return _arrived(head, note.servers) if note.servers else head
        case _:
            return _compacted(head, at, note)


def _compacted(head: Head, at: float, note: Note) -> Head:
    if isinstance(note, Folded):
        return _change(head, folded=max(head.folded, note.upto))
    if isinstance(note, Compacting):
        before = note.before or head.window
        begun = Compaction(note.child, note.upto, at, before, note.blocking, note.calls)
        return _change(head, compaction=begun)
    assert isinstance(note, Uncompacted), note
    failed = head.uncompacted + 1
    return _change(head, compaction=None, uncompacted=failed, uncompacted_why=note.reason)


def _born(head: Head, note: Born) -> Head:
    return _change(
        head,
        agent=note.agent,
        definition=note.definition,
        purpose=note.purpose,
        parent=note.parent,
        ancestors=note.ancestors,
        birth=note.call,
        birth_name=note.name,
        lineage=note.lineage,
        quota=note.quota,
        toolsets=note.toolsets,
        title=note.title,
    )


def _requested(head: Head, wait: OpenWait) -> Head:
    return _change(
        head,
        waits={**head.waits, wait.id: wait},
        pending=_asked(head.pending, wait),
        detached=_asked(head.detached, wait),
    )


def _asked(calls: dict[str, OpenCall], wait: OpenWait) -> dict[str, OpenCall]:
    call = calls.get(wait.call)
    if call is None:
        return calls
    asked = {**call.asked, wait.kind: call.asked.get(wait.kind, 0) + 1}
    return {**calls, wait.call: _change(call, asked=asked)}


def _answered(head: Head, note: Answered) -> Head:
    wait = head.waits.get(note.wait)
    head = _change(head, waits={id: open_ for id, open_ in head.waits.items() if id != note.wait})
    if wait is None or wait.kind != "approval" or note.value != "approve" or note.outcome == "stale":
        return head
    return _change(
        head,
        pending=_approved(head.pending, wait.call, wait.digest),
        detached=_approved(head.detached, wait.call, wait.digest),
    )


def _approved(calls: dict[str, OpenCall], id: str, digest: str) -> dict[str, OpenCall]:
    call = calls.get(id)
    return calls if call is None else {**calls, id: _change(call, approval=False, digest=digest)}


def _spawned(head: Head, at: float, note: Spawned) -> Head:
    child = Child(note.call, note.purpose, at, note.title, note.quota, source=note.source)
    return _change(
        head,
        children={**head.children, note.child: child},
        used=head.used + note.quota + 1,
        gathered=_given(head.gathered, note),
    )


def _given(gathered: dict[str, Gathered], note: Spawned) -> dict[str, Gathered]:
    held = gathered.get(note.source)
    if held is None:
        return gathered
    left = tuple(position for position in held.positions if position not in note.events)
    others = {call: events for call, events in gathered.items() if call != note.source}
    return {**others, note.source: _change(held, positions=left)} if left else others


def _arrived(head: Head, servers: dict[str, str]) -> Head:
    """Tool servers have other URLs from here on."""
    return _change(
        head,
        toolsets={url: hash for url, hash in head.toolsets.items() if url not in servers},
        pending=_served(head.pending, servers),
        detached=_served(head.detached, servers),
        subscriptions=_served(head.subscriptions, servers),
        waits=_served(head.waits, servers),
    )


def _served(held: dict[str, S], servers: dict[str, str]) -> dict[str, S]:
    return {id: _change(one, server=servers.get(one.server, one.server)) for id, one in held.items()}


def in_state(head: Head, id: str, state: str) -> dict[str, object]:
    """What changes in a head when a child of its is in another state than before."""
    child = head.children.get(id)
    if child is None:
        return {}
    now = _change(child, state=state)
    return {"children": {**head.children, id: now}, "used": head.used + now.places - child.places}
