"""Threads from outside: start, speak, ask what they wait for, watch. Each is a post and a ring, or a read."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from hashlib import sha256
from typing import Any

import msgspec

from torpor.core.codec import decode_head, decode_kept, decode_message
from torpor.core.errors import Refused
from torpor.core.messages import By, Noted, Part, Queued, Said, text_of
from torpor.core.moves import AWAY, MOVING
from torpor.core.record import SliceRecord
from torpor.core.signals import (
    AnySignal,
    ClosedSignal,
    CompactSignal,
    Nudged,
    SaidSignal,
    StoppedSignal,
    is_urgent,
)
from torpor.core.text import clean
from torpor.core.thread import Head
from torpor.core.tiers import TIERS, not_before, start_by
from torpor.core.views import PROGRESS_SPACE, Progress, View, views_space
from torpor.ports import Backend, Clock, Live, LiveEvent, Queue, Ring, Row, Side, Version
from torpor.runtime import questions
from torpor.runtime.equip import keeper
from torpor.runtime.explain import Explanation, Known, explain
from torpor.runtime.following import PAGE, Follower, committed
from torpor.runtime.forking import Fork, forked
from torpor.runtime.given import agent_name, check_fits, idempotency_key, thread_id, title, words
from torpor.runtime.ids import Ids
from torpor.runtime.questions import Question, Settled, Value
from torpor.runtime.receipts import Begun, Contradicts, Receipt, UnknownThread, here, still_here
from torpor.runtime.replies import Entry, Reply, Search
from torpor.runtime.roster import Roster
from torpor.runtime.trees import listed

__all__ = ["SAID", "STARTS", "Begun", "Contradicts", "Receipt", "Threads", "UnknownThread"]

MODES = ("steer", "queue", "interrupt")
SAID = "said"
"""Space of what was said under each key, by thread and key."""
STARTS = "starts"
"""Space of what was started under each key."""


class Threads:
    """All that may be done to threads without running them."""

    def __init__(
        self, store: Backend, side: Side, queue: Queue, live: Live, roster: Roster, clock: Clock, ids: Ids,
        *, fits: questions.Fits,
    ) -> None:  # fmt: skip
        self.store = store
        self.side = side
        self.queue = queue
        self.live = live
        self.roster = roster
        self.clock = clock
        self.ids = ids
        self._fits = fits

    async def start(
        self,
        agent: str,
        parts: Sequence[Part] = (),
        *,
        thread: str = "",
        owner: str = "",
        user_id: str = "",
        context: str = "",
        tier: str = "",
        by: By = By("person"),
        key: str = "",
        known_only: bool = True,
    ) -> Begun:
        """Create a thread, with its first words if there are any.

        ``Contradicts`` if there is one of this id, unless it was started by the same key in the same way.
        """
        key, parts = idempotency_key(key), words(parts) if parts else ()
        member = self.roster.need(agent) if known_only else self.roster.get(agent)
        check_fits(parts, member.window if member else 0)
        chosen = _tier(tier or (member.tier if member else "realtime"))
        now = await self.store.now()
        row = Row(
            thread=thread_id(thread or self.ids.thread()), agent=agent_name(agent), owner=clean(owner),
            user_id=clean(user_id), context=clean(context), tier=chosen,
            created=now, updated=now, title=title(parts), trace=self.ids.hex(32),
        )  # fmt: skip
        if key:
            named = row.thread if thread else ""
            asked = (row.agent, row.owner, row.user_id, row.context, row.tier, named, parts)
            row = await self._reserved(row, asked, key)
        row = _fresh(row)
        said = self._said(row, parts, "steer", by, key, now) if parts else None
        if said and key:
            await self._same_words(row.thread, key, said)
        new = await self.store.create(row, [said] if said else [])
        if not new:
            row = await self._mine(row, key)
        if said:
            await self._ring(row, now)
        return Begun(row, Receipt(said.id, "steer", not new) if said else None, not new)

    async def say(
        self,
        thread: str,
        parts: Sequence[Part],
        *,
        mode: str = "steer",
        by: By = By("person"),
        key: str = "",
        tier: str = "",
    ) -> Receipt:
        """Speak to a thread; durable when this returns. The same key with the same words counts once."""
        if mode not in MODES:
            raise Refused(f"There is no mode {mode!r}. Modes: {', '.join(MODES)}.")
        key, parts = idempotency_key(key), words(parts)
        row = await self._open(thread)
        member = self.roster.get(row.agent)
        check_fits(parts, member.window if member else 0)
        now = await self.store.now()
        signal = self._said(row, parts, mode, by, key, now, tier)
        if key:
            await self._same_words(thread, key, signal)
        applied = "steer" if mode == "queue" and not await self._waits_its_turn(row) else mode
        repeat = await self._post(row, signal, cut=mode == "interrupt", tier=tier)
        self.live.publish(thread, LiveEvent("received", text_of(signal.parts)))
        return Receipt(signal.id, applied, repeat)

    async def fork(
        self, thread: str, at: int | None = None, *, by: By = By("person"), key: str = ""
    ) -> Begun:
        """Start a root thread that continues this one's history up to a position (None: all of it).

        It has the same agent, owner, user, context and tier; no call of the other is open in it, and no
        subscription. ``Refused`` if there is no such position.
        """
        source = here(await self.row(thread))
        fork = forked(thread, await self.history(thread), at)
        now, key = await self.store.now(), idempotency_key(key)
        row = Row(
            thread=self.ids.thread(), agent=source.agent, owner=source.owner, user_id=source.user_id,
            context=source.context, tier=source.tier, lineage=fork.bytes, created=now, updated=now,
            title=fork.title or source.title, trace=self.ids.hex(32), source=source.thread,
        )  # fmt: skip
        if key:
            row = await self._reserved(row, ("fork", thread, at), key)
        row = _fresh(row)
        await self._hand_over(source, fork, row, by)
        new = await self.store.create(row, [fork.born(row, by)])
        await self._ring(row, now)
        return Begun(row if new else await self._mine(row, key), None, not new)

    async def _hand_over(self, source: Row, fork: Fork, row: Row, by: By) -> None:
        """What an heir needs of its source, before it is there: the manifests; and the source knows of it."""
        kept = keeper(source.thread, fork.head)
        for hash in filter(None, fork.head.toolsets.values()):
            body = await self.side.get_blob(kept, hash)
            if body is not None:
                await self.side.put_blob(row.thread, hash, body)
        await self._post(source, fork.signal(row, by))

    async def children(self, thread: str) -> list[Row]:
        """The threads that this one is the parent of, closed ones too, by age."""
        return _by_age(await listed(self.store, parent=(await self.row(thread)).thread))

    async def tree(self, thread: str) -> list[Row]:
        """All threads of the tree that this one belongs to, by age: its root is the first."""
        row = await self.row(thread)
        return _by_age(await listed(self.store, root=row.root or row.thread))

    async def stop(self, thread: str, by: By = By("person")) -> None:
        """Cut what runs, settle its calls; only words or a nudge let it go on."""
        await self._command(thread, StoppedSignal, "stop", by, cut=True)

    async def close(self, thread: str, by: By = By("person")) -> None:
        """End a thread for good."""
        await self._command(thread, ClosedSignal, "close", by, cut=True)

    async def nudge(self, thread: str, by: By = By("person")) -> None:
        """Let a parked or stopped thread go on, or make a quiet one look again."""
        await self._command(thread, Nudged, "nudge", by)

    async def compact(self, thread: str, by: By = By("person")) -> None:
        """Have a thread's history summed up now, however full its window is; one summary at a time."""
        await self._open(thread)
        await self._command(thread, CompactSignal, "compact", by)

    async def waits(self, thread: str) -> list[Question]:
        """What people are asked for a thread now, oldest first."""
        return await questions.addressed(self.side, questions.asked(await self.row(thread)))

    async def answer(self, wait: str, value: Value, *, by: By = By("person"), comment: str = "") -> Settled:
        """Answer a wait; durable when this returns. The first answer counts; its repeat changes nothing.

        ``Refused`` names what may be answered. A wait that is over, or never was, is told as an outcome.
        """
        row = await self.store.row(questions.thread_of(wait))
        open_ = questions.open_wait(row, wait)
        if row is None or open_ is None:
            return await questions.settled(self.store, wait)
        now = await self.store.now()
        stored = questions.value_of(open_, value, self._fits)
        signal = questions.answer_to(open_, here(row).thread, stored, comment, by, now)
        if await self._post(row, signal):
            return await questions.repeated(self.store, signal)
        return Settled(wait, questions.RECEIVED)

    async def row(self, thread: str) -> Row:
        """A thread's row. ``Refused`` if there is no such thread."""
        row = await self.store.row(clean(thread))
        if row is None:
            raise UnknownThread(f"There is no thread {thread!a:.130}.")
        return row

    async def history(self, thread: str, after: int = 0, limit: int = 1_000_000) -> list[Entry]:
        """Committed messages after a position."""
        await self.row(thread)
        return await self._read(thread, after, limit)

    async def records(self, thread: str, after: int = 0, limit: int = 1_000_000) -> list[SliceRecord]:
        """The records of its slices, oldest first, without the first ``after``."""
        await self.row(thread)
        return await self.store.records(thread, after, limit)

    async def views(self, thread: str) -> list[View]:
        """What its tool servers show beside it now, by type."""
        await self.row(thread)
        entries = await self.side.entries(views_space(thread))
        views = [decode_kept(value, View, "view") for value in entries.values()]
        return sorted((view for view in views if view.content), key=lambda view: view.type)

    async def _progress(self, thread: str) -> dict[str, Progress]:
        value = await self.side.get(PROGRESS_SPACE, thread)
        return decode_kept(value, dict[str, Progress], "progress") if value else {}

    async def explain(self, thread: str) -> Explanation:
        """What a thread waits for, and since when."""
        row = await self.row(thread)
        member = self.roster.get(row.agent)
        known = Known(
            row=row,
            head=decode_head(row.head, row.shape),
            inbox=await self.store.inbox(thread),
            outbox=await self.store.outbox(thread),
            now=await self.store.now(),
            last=await self.store.last_record(thread),
            agents=self.roster.names,
            servers=member.servers if member else (),
            progress=await self._progress(thread),
        )
        return explain(known)

    async def reply(self, thread: str, *, to: Receipt | None, timeout: float | None) -> Reply:
        """Wait for the first end of an exchange after some words: those of the receipt, else the last ones.

        ``Refused`` if the thread is parked, stopped or closed; ``TimeoutError`` says what it waits for.
        """
        await self.row(thread)
        signal = to.signal if to else await self._last_words(thread)
        async with Follower(self.live, self.clock, thread) as news:
            search = Search(signal)
            deadline = None if timeout is None else self.clock.now() + timeout
            while True:
                # Asked first: what is not in the inbox any more shows in the row that is read after it.
                at_work = await self._has_work(thread)
                row = await self.row(thread)
                if (reply := await self._found(thread, search)) is not None:
                    return reply
                if row.state not in ("open", MOVING) and not at_work:
                    raise Refused(_ended(row, decode_head(row.head, row.shape)))
                if deadline is not None and self.clock.now() >= deadline:
                    raise TimeoutError(f"No reply yet. {(await self.explain(thread)).text}")
                await news.wait(deadline)

    async def committed(self, thread: str, after: int = 0) -> AsyncIterator[Entry | LiveEvent]:
        """Committed messages after a position, then what comes, with live events between; for ever."""
        await self.row(thread)
        async with aclosing(committed(self.store, self.live, self.clock, thread, after)) as items:
            async for item in items:
                yield item

    async def _found(self, thread: str, search: Search) -> Reply | None:
        """Go on with a search, a page at a time: what is looked through may be long."""
        while entries := await self._read(thread, search.position, PAGE):
            if (reply := search.feed(entries)) is not None or len(entries) < PAGE:
                return reply
        return None

    async def _read(self, thread: str, after: int, limit: int) -> list[Entry]:
        stored = await self.store.read(thread, after, limit)
        return [Entry(message.position, decode_message(message.body)) for message in stored]

    async def _has_work(self, thread: str) -> bool:
        return any(not signal.due for signal in await self.store.inbox(thread))

    async def _waits_its_turn(self, row: Row) -> bool:
        """Whether ``queue`` text finds something to wait for."""
        busy = decode_head(row.head, row.shape).busy or await self._has_work(row.thread)
        return row.state == "open" and busy

    async def _last_words(self, thread: str) -> str:
        waiting = [s.id for s in await self.store.inbox(thread) if isinstance(s, SaidSignal)]
        if waiting:
            return waiting[-1]
        for end in range((await self.row(thread)).length, 0, -PAGE):
            for entry in reversed(await self._read(thread, max(0, end - PAGE), min(end, PAGE))):
                match entry.message:
                    case Said(signal=signal) | Noted(note=Queued(signal=signal)):
                        return signal
        raise Refused("Nothing has been said to this thread yet, so there is nothing to reply to.")

    async def _open(self, thread: str) -> Row:
        row = here(await self.row(thread))
        if row.state == "closed":
            raise Contradicts(f"The thread {thread!r} is closed.")
        return row

    async def _command(
        self,
        thread: str,
        kind: type[StoppedSignal | ClosedSignal | Nudged | CompactSignal],
        word: str,
        by: By,
        *,
        cut: bool = False,
    ) -> None:
        row = here(await self.row(thread))
        signal = kind(thread, f"{word}/{self.ids.text(12)}", await self.store.now(), by)
        await self._post(row, signal, cut=cut)

    def _said(
        self, row: Row, parts: Sequence[Part], mode: str, by: By, key: str, now: float, tier: str = ""
    ) -> SaidSignal:
        id = f"said/{key or self.ids.text(16)}"
        return SaidSignal(row.thread, id, now, by, tier=tier, parts=tuple(parts), mode=mode)

    async def _reserved(self, row: Row, asked: tuple[Any, ...], key: str) -> Row:
        """The row as this key started it first: its id, and the trace by which it is known again."""
        body = sha256(msgspec.msgpack.encode(asked)).hexdigest()
        mine = msgspec.msgpack.encode((row.thread, row.trace, body))
        kept = await self.side.put_new(STARTS, key, mine)
        id, trace, first = decode_kept(kept, tuple[str, str, str], "key of a start")
        if first != body:
            raise Contradicts(f"The idempotency key {key!r} was used before with another body.")
        return msgspec.structs.replace(row, thread=id, trace=trace)

    async def _mine(self, row: Row, key: str) -> Row:
        """The thread that is there already, if it is the one that this key started."""
        found = await self.row(row.thread)
        if not key or found.trace != row.trace:
            raise Contradicts(f"There is a thread {row.thread!r} already.")
        return found

    async def _same_words(self, thread: str, key: str, signal: SaidSignal) -> None:
        body = sha256(msgspec.msgpack.encode((signal.parts, signal.mode))).digest()
        if await self.side.put_new(SAID, f"{thread}/{key}", body) != body:
            raise Contradicts(f"The idempotency key {key!r} was used before with other words.")

    async def _post(self, row: Row, signal: AnySignal, *, cut: bool = False, tier: str = "") -> bool:
        posted = (await self.store.post([signal]))[0]
        await still_here(self.store, row.thread)
        await self._ring(row, signal.at, cut=cut, tier="realtime" if is_urgent(signal) else tier)
        return posted.outcome == "repeat"

    async def _ring(self, row: Row, now: float, *, cut: bool = False, tier: str = "") -> None:
        chosen = _tier(tier or row.tier)
        by = start_by(chosen, now)
        ring = Ring(row.thread, by, not_before(chosen, by), chosen, row.owner, row.agent, cut)
        await self.queue.ring([ring])


def _by_age(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.created, row.thread))


def _fresh(row: Row) -> Row:
    """The row of a new root. Its version is of its own: a deleted one of the same id had another."""
    return msgspec.structs.replace(row, root=row.thread, version=Version(0, row.trace))


def _ended(row: Row, head: Head) -> str:
    reason = f": {head.reason.rstrip('.')}." if head.reason else "."
    closed = row.state == "closed" or row.state in AWAY or "nudge" in reason
    hint = "" if closed else " Say something or nudge it to let it go on."
    return f"The thread is {row.state}{reason}{hint}"


def _tier(name: str) -> str:
    if name not in TIERS:
        raise Refused(f"There is no tier {name!r}. Tiers: {', '.join(TIERS)}.")
    return name
