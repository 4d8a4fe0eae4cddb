"""A whole tree goes to another store: it is held, its tool servers move, it is copied, and lives there.

One commit decides: the one that ends the root here. Whatever fails before it leaves the tree as it was; from
there on the move can only be completed, in any process, by asking for it again.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from torpor.core.codec import decode_head, encode
from torpor.core.errors import Conflict, Refused, TorporError
from torpor.core.messages import Arrived, Moved, Noted
from torpor.core.moves import ARRIVING, HUSKS, MOVED, MOVING
from torpor.core.plan import owes_now
from torpor.core.thread import Head, evolve
from torpor.ports import Backend, Clock, Row
from torpor.runtime.equip import keeper
from torpor.runtime.ids import Ids
from torpor.runtime.moving_aborts import take_back
from torpor.runtime.moving_copies import Copies, calls_back
from torpor.runtime.moving_plan import MOVES, Plan, is_same, is_whole, keep, name_of, plan_of
from torpor.runtime.moving_tree import Change, Place, Tree, change, ring
from torpor.runtime.receipts import Contradicts, UnknownThread, here

log = logging.getLogger("torpor.moves")

PATIENCE = 60.0
"""Seconds in which what runs has to come to its end."""
AT_ONCE = 16
"""Threads whose tool servers are told at once."""


class Courier(Protocol):
    """The way to tool servers for a session as a whole."""

    async def keeps_state(self, thread: str, manifest: str) -> bool:
        """Whether the manifest that is kept beside a thread says that the server has to be told."""

    async def keeps_state_now(self, server: str) -> bool:
        """The same, by the manifest that the server shows when it is asked."""

    def signs(self, server: str) -> bool:
        """Whether a server signs what it sends."""

    async def migrate(self, server: str, session: str, destination: str, trace: str) -> None:
        """Have a server move a session; returns once it has. ``Refused`` or ``Unavailable`` says why not."""

    async def closed(self, row: Row, servers: tuple[str, ...]) -> None:
        """Tell servers that a thread is closed; best effort."""


class Mover:
    """Moves trees from one place to another."""

    def __init__(
        self, here: Place, there: Place, courier: Courier, clock: Clock, ids: Ids, patience: float = PATIENCE
    ) -> None:
        if here.store is there.store or (here.url != "memory:" and is_same(here.url, there.url)):
            raise Refused("A tree moves to another store, not to its own.")
        self._here = here
        self._there = there
        self._courier = courier
        self._clock = clock
        self._ids = ids
        self._patience = patience

    async def move(self, thread: str, servers: Mapping[str, str] | None = None) -> list[str]:
        """Move a root and all below it; gives their ids. ``servers``: where tool servers are there, by URL.

        If it fails, the tree goes on here. What was interrupted is taken up again.
        """
        root = await _root(self._here, thread)
        plan = await self._planned(root, {_url(a): _url(b) for a, b in (servers or {}).items()})
        tree = Tree(self._here, root.thread, self._clock, self._ids)
        if root.state != MOVED:
            plan = await self._leave(tree, root, plan)
        return await self._arrive(tree, plan)

    async def _planned(self, root: Row, servers: dict[str, str]) -> Plan:
        """What is under way already, or a new plan, once nothing seems to stand against it."""
        begun = await plan_of(self._here.side, root.thread)
        if begun is not None and (not begun.done or root.state == MOVED):
            return _same(root, begun, self._there.url, servers)
        if root.state == MOVED and await self._awaits(root.thread):
            return Plan(name_of(self._there.url), servers)
        if root.state in HUSKS:
            here(root)
        if root.state == "closed":
            raise Contradicts(f"The thread {root.thread!r} is closed; its history stays where it is.")
        plan = Plan(name_of(self._there.url), servers)
        rows = await Tree(self._here, root.thread, self._clock, self._ids).rows()
        if not rows:
            raise UnknownThread(f"The thread {root.thread!r} was deleted just now.")
        await self._needed(rows, plan)
        await self._copies(plan).check(rows)
        return await self._keep(root.thread, plan)

    async def _awaits(self, root: str) -> bool:
        """Whether a tree has left, and all of it is there and waits for word of that."""
        copy = await self._there.store.row(root)
        return copy is not None and is_whole(copy)

    async def _needed(self, rows: Sequence[Row], plan: Plan) -> list[str]:
        """Tool servers that have to be told. ``Refused`` unless it is known where each of them goes."""
        used = await self._used(rows)
        for server in plan.servers.keys() - used.keys():
            raise Refused(f"No thread of this tree uses a tool server {server!r}.")
        if any((kept or kept is None) and calls_back(server) for server, kept in used.items()):
            await self._there.callback_url(rows[0].thread, "move")
        needed = [url for url, kept in used.items() if await self._keeps_state(url, kept)]
        for server in needed:
            if server not in plan.servers:
                raise Refused(
                    f"The tool server {server} keeps state for this tree, which has to move too: "
                    "say at which URL it is there."
                )
        return needed

    async def _used(self, rows: Sequence[Row]) -> dict[str, set[tuple[str, str]] | None]:
        """Tool servers with the manifests that threads have recorded; None: with none, since they moved."""
        came = await self._here.side.get(MOVES, f"{rows[0].thread}/servers")
        known = msgspec.json.decode(came, type=list[str]) if came else []
        return {**dict.fromkeys(known), **_toolsets(rows)}

    async def _keeps_state(self, server: str, manifests: Collection[tuple[str, str]] | None) -> bool:
        if manifests is None:
            return await self._courier.keeps_state_now(server)
        return any([await self._courier.keeps_state(*one) for one in manifests])

    async def _leave(self, tree: Tree, root: Row, plan: Plan) -> Plan:
        """Bring all of it there, and end it here."""
        attempts = (*plan.attempts, self._ids.text(12))
        plan = await self._keep(root.thread, replace(plan, attempts=attempts))
        try:
            rows = await tree.hold(self._patience)
            copies = self._copies(plan)
            needed = await self._needed(rows, plan)
            await copies.check(rows)
            plan = await self._move_servers(root, plan, needed)
            copied = tuple(row.thread for row in rows)
            plan = await self._keep(root.thread, replace(plan, copied=copied))
            await copies.make(tree, rows, [url for url in _toolsets(rows) if self._courier.signs(url)])
            await self._end(copies, rows[0])
        except (Exception, asyncio.CancelledError) as error:
            if await self._stayed(tree, plan) or isinstance(error, asyncio.CancelledError):
                raise
        return plan

    async def _stayed(self, tree: Tree, plan: Plan) -> bool:
        """Have the tree go on here, unless it has left; what was brought there is taken away."""
        rows = await tree.rows()
        if not await tree.let_go():
            return False
        try:
            await take_back(self._there.backend, tree.root, rows, plan.attempts)
        except TorporError as error:
            log.warning("Copies of %s are left in %s: %s", tree.root, plan.to, error)
        await self._here.side.put(MOVES, tree.root, b"")
        return True

    async def _move_servers(self, root: Row, plan: Plan, needed: Sequence[str]) -> Plan:
        """One after the other: the first that fails leaves the others where they are."""
        for server in needed:
            if server not in plan.moved:
                await self._courier.migrate(server, root.thread, plan.servers[server], root.trace)
                plan = await self._keep(root.thread, replace(plan, moved=(*plan.moved, server)))
        return plan

    async def _end(self, copies: Copies, held: Row) -> None:
        """End a thread here, if it is held as it was copied; what came meanwhile follows it."""
        store = self._here.store
        came, now = await store.inbox(held.thread), await store.now()
        await copies.post(came)
        version, absorbed = held.version, dict.fromkeys([signal.id for signal in came], MOVED)

        def edit(row: Row) -> Change | None:
            if row.state == MOVED:
                return None
            if row.state != MOVING or row.version != version:
                raise Conflict(f"The thread {row.thread} went on here while it was being moved.")
            note = Noted(now, Moved(name_of(self._there.url)), row.trace)
            return Change(_row(row, evolve(_head(row), note), MOVED, now), note, absorbed)

        await change(store, held.thread, self._ids, edit)

    async def _arrive(self, tree: Tree, plan: Plan) -> list[str]:
        """Let all of it live there, and nothing of it here."""
        root, copies, rows = tree.root, self._copies(plan), await tree.rows()
        await self._check_there(root, plan)
        for row in rows:
            if row.state == MOVING:
                await self._end(copies, row)
        moved = [copy for row in rows if (copy := await self._there.store.row(row.thread)) is not None]
        for copy in moved:
            await self._clear(copies, copy.thread)
            await self._begin(copy.thread, await tree.was(copy), plan)
        servers = msgspec.json.encode(sorted(set(plan.servers.values())))
        await self._there.side.put(MOVES, f"{root}/servers", servers)
        await self._tell(moved, plan.moved)
        for copy in moved:
            await copies.post(await self._here.store.inbox(copy.thread))  # from who looked before they left
        await self._keep(root, replace(plan, done=True))
        return [row.thread for row in moved]

    async def _check_there(self, root: str, plan: Plan) -> None:
        """Raise ``Refused`` unless all copies are there; once the root lives there, others may have ended."""
        for thread in (root, *plan.copied):
            found = await self._there.store.row(thread)
            if found is None:
                raise Refused(
                    f"The thread {root!r} has left for {plan.to}, but {thread!r} was deleted there. Nothing "
                    f"more was done. Its history is still here; `torpor delete {root} --moving` erases it."
                )
            if thread == root and found.state != ARRIVING:
                return

    async def _clear(self, copies: Copies, thread: str) -> None:
        """What came for a thread while it ended follows it; what it had to do is done there."""
        store = self._here.store
        await copies.post(await store.inbox(thread))
        await store.delivered(thread, [one.effect.id for one in await store.outbox(thread)])

    async def _begin(self, thread: str, state: str, plan: Plan) -> None:
        """Let a copy live, as the thread was."""
        now = await self._there.store.now()

        def edit(row: Row) -> Change | None:
            if row.state != ARRIVING:
                return None
            if not row.length:  # its birth is to be the first of its messages, and waits in its inbox
                return Change(_row(row, _head(row), state, now))
            note = Noted(now, Arrived(name_of(self._here.url), plan.servers), row.trace)
            return Change(_row(row, evolve(_head(row), note), state, now), note)

        await ring(self._there, await change(self._there.store, thread, self._ids, edit))

    async def _tell(self, rows: Sequence[Row], servers: tuple[str, ...]) -> None:
        """Servers that have moved hear that the threads ended where they were."""
        for first in range(0, len(rows) if servers else 0, AT_ONCE):
            page = rows[first : first + AT_ONCE]
            await asyncio.gather(*(self._courier.closed(row, servers) for row in page))

    def _copies(self, plan: Plan) -> Copies:
        return Copies(self._here, self._there, plan)

    async def _keep(self, root: str, plan: Plan) -> Plan:
        return await keep(self._here.side, root, plan)


async def stay(here: Place, thread: str, clock: Clock, ids: Ids, there: Backend | None = None) -> bool:
    """Give up a move that was interrupted: the tree goes on here, as it was. ``Refused`` once it has left.

    ``there``: the store that it was to go to; copies are erased in it. Says whether none can be left.
    """
    root = await _root(here, thread)
    plan = await plan_of(here.side, root.thread)
    if plan is None or plan.done:
        raise Refused(f"The thread {root.thread!r} is not moving.")
    tree = Tree(here, root.thread, clock, ids)
    rows = await tree.rows()
    if not await tree.let_go():
        raise Refused(
            f"The thread {root.thread!r} has left for {plan.to}: move it there again to complete that."
        )
    if there is not None:
        await take_back(there, root.thread, rows, plan.attempts)
    await here.side.put(MOVES, root.thread, b"")
    return there is not None or not plan.copied


async def _root(here: Place, thread: str) -> Row:
    row = await here.store.row(thread)
    if row is None:
        raise UnknownThread(f"There is no thread {thread!a:.130}.")
    if row.parent:
        raise Refused(f"Trees move as a whole: the root of {thread!r} is {row.root!r}.")
    return row


def _same(root: Row, begun: Plan, to: str, servers: Mapping[str, str]) -> Plan:
    """The plan that is under way, if it is what is asked for."""
    if begun.done:
        raise Contradicts(f"The thread {root.thread!r} was moved to {begun.to}.")
    if not is_same(begun.to, to) or (servers and servers != begun.servers):
        raise Contradicts(
            f"The thread {root.thread!r} is on its way to {begun.to}. Complete that, or give it up, first."
        )
    return begun


def _toolsets(rows: Sequence[Row]) -> dict[str, set[tuple[str, str]]]:
    """Tool servers of a tree, each with where its manifests are kept, and their hashes."""
    found: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        head = _head(row)
        for server, hash in head.toolsets.items():
            kept = found.setdefault(server, set())
            if hash:
                kept.add((keeper(row.thread, head), hash))
    return found


def _head(row: Row) -> Head:
    return decode_head(row.head, row.shape)


def _row(row: Row, head: Head, state: str, now: float) -> Row:
    return replace(
        row,
        state=state,
        owes=owes_now(head),
        waits=len(head.pending),
        updated=now,
        length=head.length,
        head=encode(head),
    )


def _url(text: str) -> str:
    return text.rstrip("/")
