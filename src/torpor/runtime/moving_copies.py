"""What goes along when a tree moves: its threads whole, the small things beside them, what they continue.

Nothing here lets a thread live anywhere: copies are ``arriving``, and each may be made again. Those of one
attempt carry its mark in their versions. While the root's copy is not *whole*, the other store cannot have
decided: whoever takes it away there only keeps the tree where it is.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from torpor.core.codec import decode_head
from torpor.core.errors import Conflict, Refused
from torpor.core.messages import Link
from torpor.core.moves import ARRIVING, HUSKS, MOVED, moved_effect, moved_signal
from torpor.core.signals import AnySignal
from torpor.core.thread import Head
from torpor.ports import BY_THREAD, FORWARDS, Commit, Exported, Row, Version
from torpor.runtime.definitions import SPACE as DEFINITIONS
from torpor.runtime.moving_plan import MOVES, WHOLE, Plan, mark_of, name_of
from torpor.runtime.moving_tree import Place, Tree
from torpor.runtime.trees import links_of


class Copies:
    """Copies of threads at the place that they go to."""

    def __init__(self, here: Place, there: Place, plan: Plan) -> None:
        self._here = here
        self._there = there
        self._servers = dict(plan.servers)
        self._attempts = plan.attempts
        self._definitions: set[str] = set()

    @property
    def _mark(self) -> str:
        return self._attempts[-1]

    async def check(self, rows: Iterable[Row]) -> None:
        """Raise ``Refused`` if there is a thread of such an id already, which lives there."""
        for row in rows:
            found = await self._there.store.row(row.thread)
            if found is not None and not _makes_room(found, row):
                raise Refused(f"There is a thread {row.thread!r} in {name_of(self._there.url)} already.")

    async def make(self, tree: Tree, rows: Sequence[Row], signing: Collection[str]) -> None:
        """Copy all that is kept of these threads. ``signing``: tool servers that sign what they send."""
        for row in rows:
            await self._copy(rows[0].thread, row, await tree.claimed(row.thread))
            await self._forward(row, signing)
        mine = {row.thread for row in rows}
        for space in set(BY_THREAD) - {FORWARDS, MOVES}:
            for key, value in (await self._here.side.entries(space)).items():
                if key.partition("/")[0] in mine and value:
                    await self._there.side.put(space, key, value)
        for link in continued(rows):
            await self._keep_history(link)
        await self._seal(rows[0].thread)

    async def _seal(self, root: str) -> None:
        """Say of the root's copy that all are there. ``Conflict`` if it is not the one that was made here."""
        store = self._there.store
        row = await store.row(root)
        if row is None or row.state != ARRIVING or mark_of(row) != self._mark:
            raise Conflict(f"The copy of {root} in {name_of(self._there.url)} was taken away meanwhile.")
        await store.commit(Commit(thread=root, base=row.version, commit_id=f"{self._mark}{WHOLE}", row=row))

    async def _copy(self, root: str, row: Row, claimed: Collection[str]) -> None:
        exported = await self._here.store.export(row.thread)
        held = await self._here.store.row(root)
        if (
            held is None or held.state in HUSKS
        ):  # another attempt has come through: its copies are those that live
            raise Conflict(f"The thread {root} has left already.")
        if not await self._there.store.take_in(self._rewritten(exported, claimed)):
            raise Refused(f"There is a thread {row.thread!r} in {name_of(self._there.url)} already.")
        for hash in {record.definition for record in exported.records} - self._definitions:
            self._definitions.add(hash)
            value = await self._here.side.get(DEFINITIONS, hash)
            if value is not None:
                await self._there.side.put_new(DEFINITIONS, hash, value)

    def _rewritten(self, exported: Exported, claimed: Collection[str]) -> Exported:
        """A thread as it arrives: a claim for the move is no try, and servers may have other URLs there."""
        replace = msgspec.structs.replace
        outbox = tuple(
            (
                replace(
                    one,
                    effect=moved_effect(one.effect, self._servers),
                    attempt=one.attempt - (one.effect.id in claimed),
                ),
                at,
            )
            for one, at in exported.outbox
        )
        inbox = tuple((moved_signal(signal, self._servers), at) for signal, at in exported.inbox)
        version = Version(exported.row.version.counter, self._mark)
        row = replace(exported.row, state=ARRIVING, version=version)
        return replace(exported, row=row, inbox=inbox, outbox=outbox)

    async def _forward(self, row: Row, signing: Collection[str]) -> None:
        """Where callbacks of what is open are taken from now on."""
        for call, server in _open(decode_head(row.head, row.shape)):
            there = self._servers.get(server, server)
            url = await self._there.callback_url(row.thread, call, there, signs=server in signing)
            await self._here.side.put(FORWARDS, f"{row.thread}/{call}", url.encode())

    async def _keep_history(self, link: Link) -> None:
        """A thread that is continued stays where it is; its history, as it is now, is there too.

        As what has left: it is nobody's child there, so that it can be deleted there by itself.
        """
        found = await self._there.store.row(link.thread)
        if found is not None and found.length >= link.upto:
            return
        whole = await self._here.store.export(link.thread)
        version = Version(whole.row.version.counter, self._mark)
        row = msgspec.structs.replace(
            whole.row, state=MOVED, root=link.thread, parent="", owes=False, version=version
        )
        await self._there.store.take_in(Exported(row=row, messages=whole.messages, blobs=whole.blobs))

    async def post(self, signals: Sequence[AnySignal]) -> None:
        """What came for a thread after it was copied."""
        for signal in signals:
            handle = getattr(signal, "handle", "")
            body = await self._here.side.get_blob(signal.thread, handle) if handle else None
            if body is not None:
                await self._there.side.put_blob(signal.thread, handle, body)
        if signals:
            await self._there.store.post([moved_signal(signal, self._servers) for signal in signals])


def _makes_room(found: Row, row: Row) -> bool:
    return found.state in HUSKS and found.version.counter <= row.version.counter


def continued(rows: Sequence[Row]) -> list[Link]:
    """The histories of others that threads continue."""
    mine = {row.thread for row in rows}
    links = {link.thread: link for row in rows for link in _lineage(row)}
    return [link for thread, link in links.items() if thread not in mine]


def _lineage(row: Row) -> tuple[Link, ...]:
    return decode_head(row.head, row.shape).lineage or links_of(row)


def _open(head: Head) -> Iterable[tuple[str, str]]:
    """Calls and subscriptions that tool servers may still send something for, each with its server."""
    if head.state == "closed":
        return
    served = [(id, call.server) for id, call in {**head.pending, **head.detached}.items()]
    served += [(id, held.server) for id, held in head.subscriptions.items()]
    yield from ((id, server) for id, server in served if calls_back(server))


def calls_back(server: str) -> bool:
    """Whether a tool server sends what comes of calls; what is bridged is asked for it."""
    return server.startswith(("http://", "https://"))
