"""The public face: ``Runtime`` joins all parts in one process, and ``Thread`` is a handle on one thread."""

import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack
from urllib.parse import urlsplit

import msgspec

from torpor.agent import Agent, check_agents
from torpor.core.errors import Refused, TorporError
from torpor.core.messages import By, Message, Part, Text
from torpor.core.record import SliceRecord
from torpor.core.signals import AnySignal
from torpor.core.views import View
from torpor.ports import Asked, LiveEvent, Row
from torpor.runtime.deletion import Deleted, delete
from torpor.runtime.explain import Explanation
from torpor.runtime.given import context_text, filters
from torpor.runtime.moving import PATIENCE, Mover, stay
from torpor.runtime.moving_plan import is_same, name_of, plan_of
from torpor.runtime.questions import Question, Settled, Value
from torpor.runtime.replies import Entry, Reply
from torpor.runtime.retention import Keep, Pruned, prune
from torpor.runtime.stepped import StepResult
from torpor.runtime.stepping import DEADLINE, SIDE_BY_SIDE, step
from torpor.runtime.threads import Receipt
from torpor.wiring import is_there, open_parts

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from torpor.wiring import Address, Parts

Words = str | Sequence[Part]


class Event(msgspec.Struct, frozen=True):
    """What a watcher of a thread is told. Committed messages have a position; live events have none (0)."""

    kind: str
    """The message's kind (``said``, ``turn``, ``result``, …), or the live event's."""
    position: int = 0
    message: Message | None = None
    text: str = ""
    name: str = ""
    """Of a ``view``: its type; ``text`` is then its content as JSON text."""


class Thread:
    """A handle on one thread; keeps nothing but its id and what this handle sent last."""

    def __init__(self, parts: "Parts", id: str, receipt: Receipt | None = None) -> None:
        self.id = id
        self._parts = parts
        self._threads = parts.threads
        self._last = receipt

    def __repr__(self) -> str:
        return f"Thread({self.id!r})"

    async def send(self, text: Words, mode: str = "steer", *, key: str = "", tier: str = "") -> Receipt:
        """Speak; durable when this returns. ``mode``: ``steer``, ``queue`` or ``interrupt``."""
        self._last = await self._threads.say(self.id, _parts(text), mode=mode, key=key, tier=tier)
        return self._last

    async def reply(self, timeout: float | None = None, *, to: Receipt | None = None) -> Reply:
        """The end of the exchange after what this handle sent last (a fresh handle: after the last words).

        ``Refused`` if the thread is parked, stopped or closed; ``TimeoutError`` says what it waits for.
        """
        return await self._threads.reply(self.id, to=to or self._last, timeout=timeout)

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Committed messages after a position, each once, and live events between them; never ends."""
        async for item in self._threads.committed(self.id, after):
            yield _event(item)

    async def history(self) -> list[Message]:
        """All committed messages."""
        return [entry.message for entry in await self._threads.history(self.id)]

    async def explain(self) -> Explanation:
        """What it waits for and since when."""
        return await self._threads.explain(self.id)

    async def waits(self) -> list[Question]:
        """What people are asked for it now: choices, forms, authorizations, approvals."""
        return await self._threads.waits(self.id)

    async def views(self) -> list[View]:
        """What its tool servers show beside the conversation now, by type."""
        return await self._threads.views(self.id)

    async def answer(self, wait: str, value: Value, *, comment: str = "", by: str = "") -> Settled:
        """Answer one of its waits by id; durable when this returns. The first answer counts.

        ``value``: for a choice its text or place, for a form a dict or ``decline``, for an approval True or
        False, for an authorization True (it is done); None dismisses all but an approval. ``by``: who
        answers. ``Refused`` names what may be answered. A wait that is over or unknown: see the outcome.
        """
        if not wait.startswith(f"{self.id}."):
            return Settled(wait, "unknown")
        return await self._threads.answer(wait, value, by=By("person", by), comment=comment)

    async def records(self, after: int = 0, limit: int = 1_000_000) -> list[SliceRecord]:
        """The records of its slices, oldest first, without the first ``after``."""
        return await self._threads.records(self.id, after, limit)

    async def fork(self, at: int | None = None, *, key: str = "") -> "Thread":
        """Start a root thread that continues this one's history up to a position (None: all of it).

        No call of this one is open in it, and no subscription. ``Refused`` if there is no such position.
        """
        begun = await self._threads.fork(self.id, at, key=key)
        return Thread(self._parts, begun.row.thread)

    async def children(self) -> list["Thread"]:
        """Its children, closed ones too, by age; those of the runtime's own are left out."""
        return [Thread(self._parts, row.thread) for row in await self._threads.children(self.id)]

    async def row(self) -> Row:
        """What is known of it at a glance: its agent, title, state, parent, root and the like."""
        return await self._threads.row(self.id)

    async def stop(self) -> None:
        """Cut what runs and settle its calls; only words or a nudge let it go on."""
        await self._threads.stop(self.id)

    async def nudge(self) -> None:
        """Let it go on after it was parked or stopped, or look again."""
        await self._threads.nudge(self.id)

    async def compact(self) -> None:
        """Have its history summed up now, however full its window is; one summary at a time."""
        await self._threads.compact(self.id)

    async def close(self) -> None:
        """End it for good."""
        await self._threads.close(self.id)

    async def delete(self, *, forks: bool = False, moving: bool = False) -> Deleted:
        """Erase it with all threads below, open or not; see ``Runtime.delete``."""
        parts = self._parts
        return await delete(parts.backend, parts.queue, self.id, forks=forks, moving=moving)


class Runtime:
    """Web and worker in this process over one store. An async context manager.

    ``store``: ``memory:``, ``sqlite:///path`` or ``postgresql://user:password@host:port/database``.
    ``listen``: ``host:port`` for callbacks and the API, None for no port. ``public_url``: how tool servers
    reach it, if not by that address. ``workers``: slices side by side; 0 runs none here. ``token``: what the
    API asks for; a fresh one if left out.
    """

    def __init__(
        self,
        store: str,
        *,
        agents: Sequence[Agent] = (),
        listen: str | None = "127.0.0.1:0",
        public_url: str | None = None,
        workers: int = 8,
        token: str = "",
        **options: Any,
    ) -> None:
        _check_workers(workers)
        self._listen = listen
        self._workers = workers
        self._stack = AsyncExitStack()
        self._store = store
        self._agents = check_agents(agents)
        self._options = {"public_url": public_url, **options}
        self._parts: Parts | None = None
        self._app: Starlette | None = None
        self.token = token or secrets.token_urlsafe(32)
        """The bearer token of the API."""
        self.url = ""
        """Where it listens; empty: nowhere."""

    async def __aenter__(self) -> Self:
        if self._parts is not None:
            raise Refused("A runtime is used once; make a new one to open the store again.")
        try:
            self._parts = await self._stack.enter_async_context(
                open_parts(self._store, self._agents, **self._options)
            )
            if self._listen is not None:
                await self._open_port(self._listen)
            if self._workers:
                await self._stack.enter_async_context(self._parts.working(self._workers))
        except BaseException:
            await self._stack.aclose()
            self._parts = self._app = None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _open_port(self, listen: str) -> None:
        """Listen, and let calls name this port unless the store has a lasting address.

        Others that open no port send their calls' answers to the registered address, so one at which nobody
        of this store answers any more is replaced.
        """
        parts = self.parts
        known = await parts.address()
        self.url = await self._open_at(listen, known)
        if parts.public_url:
            await parts.register(parts.public_url, "public")
        elif not known.is_lasting:
            parts.here = self.url
            if known.url != self.url and not (known.url and await parts.is_ours(known.url)):
                await parts.register(self.url, "runtime")

    async def _open_at(self, listen: str, known: "Address") -> str:
        """On a free port, that is where a runtime of this store has listened before, if it still is free."""
        from torpor.web.listening import listening

        host, _, port = listen.rpartition(":")
        before = urlsplit(known.url)
        fits = known.kind == "runtime" and before.port and before.hostname == host.strip("[]")
        if port == "0" and fits:
            with contextlib.suppress(Refused):
                again = listening(self.app, f"{host}:{before.port}")
                return await self._stack.enter_async_context(again)
        return await self._stack.enter_async_context(listening(self.app, listen))

    @property
    def parts(self) -> "Parts":
        """The joined parts. ``Refused`` outside of ``async with``."""
        if self._parts is None:
            raise Refused("Use the runtime inside `async with Runtime(...) as runtime:`.")
        return self._parts

    @property
    def app(self) -> "Starlette":
        """The ASGI application: API, callbacks, live events."""
        if self._app is None:
            from torpor.web.app import build

            parts = self.parts
            self._app = build(
                parts.threads,
                parts.callbacks,
                token=self.token,
                public_url=parts.public_url or "",
                authorizations=parts.authorizations,
            )
        return self._app

    async def start(
        self,
        agent: str,
        text: Words | None = None,
        *,
        thread: str = "",
        owner: str = "",
        user_id: str = "",
        context: Any = None,
        tier: str = "",
    ) -> Thread:
        """Start a thread of an agent, with its first words if there are any."""
        parts = () if text is None else _parts(text)
        begun = await self.parts.threads.start(
            agent,
            parts,
            thread=thread,
            owner=owner,
            user_id=user_id,
            context=context_text(context),
            tier=tier,
        )
        return Thread(self.parts, begun.row.thread, begun.receipt)

    def thread(self, id: str) -> Thread:
        """A handle on a thread by its id; nothing is looked up yet."""
        return Thread(self.parts, id)

    async def move(
        self,
        thread: str,
        to: "Runtime | str",
        *,
        servers: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
        create: bool = False,
    ) -> list[str]:
        """Move a root thread and all below it to another store; gives the ids of what moved.

        ``to``: a store's URL, or a runtime over it; ``create``: where that URL names none, it is made.
        ``servers``: of tool servers that have another base URL there, both URLs; those that keep state of
        sessions are told to move it. What runs is given ``patience`` seconds to end. If anything fails, the
        tree goes on here as it was; a move that was interrupted is completed by asking for it again, or given
        up by ``stay``.
        """
        if isinstance(to, str) and not create and not is_there(to):
            raise Refused(f"There is no store {name_of(to)} yet. To have it made, say create=True.")
        async with _parts_of(to) as there:
            here = self.parts
            mover = Mover(here, there, here.messenger, here.clock, here.ids, patience)
            return await mover.move(thread, servers)

    async def stay(self, thread: str, to: "Runtime | str | None" = None) -> bool:
        """Give up a move that was interrupted. ``Refused`` if there is none, or the tree has left.

        ``to``: the store that it was to go to, where copies are erased; by default the one of the move. Says
        whether none can be left there: that store may be out of reach.
        """
        here = self.parts
        plan = await plan_of(here.side, thread)
        named = to or (plan.to if plan else "")
        url = named if isinstance(named, str) else named.parts.url
        if plan and not is_same(plan.to, url):
            raise Refused(f"The thread {thread!r} was to go to {plan.to}, not to {name_of(url)}.")
        if isinstance(named, str) and not (plan and _is_reached(named, insist=to is not None)):
            return await stay(here, thread, here.clock, here.ids)
        async with _parts_of(named) as there:
            return await stay(here, thread, here.clock, here.ids, there.backend)

    async def threads(self, *, after: str = "", limit: int = 100, **asked: Unpack[Asked]) -> list[Row]:
        """Rows of threads by id, from the one after ``after`` on.

        ``asked``: ``owner``, ``agent``, ``state``, ``root`` (a whole tree), ``parent`` (empty: threads that
        have none), ``purpose``.
        """
        return await self.parts.store.threads(**filters(**asked, after=after), limit=limit)

    async def step(
        self, *news: AnySignal | str, deadline: float = DEADLINE, side_by_side: int = SIDE_BY_SIDE
    ) -> StepResult:
        """Take signals, or ids of threads to look at, and work on their threads until the deadline at most.

        For platforms that schedule by themselves; with ``workers=0``. ``deadline``: in seconds. Threads are
        worked on side by side, each in its order, and one that fails fails alone. When this returns, nothing
        goes on here; the result says of each what became of it, and when to step its thread again.
        """
        parts = self.parts
        return await step(parts.kit, parts.dispatcher, news, deadline=deadline, side_by_side=side_by_side)

    async def delete(self, thread: str, *, forks: bool = False, moving: bool = False) -> Deleted:
        """Erase a root thread with all threads below, open or not, for good.

        ``forks``: with those that continue the history of one of them; else these are named by ``HasForks``.
        ``moving``: also what a move left that was never completed, which else is ``Refused``: say so if the
        thread lives in the other store, or is to be gone.
        The result counts what was erased, and says what a search for it found afterwards: nothing.
        """
        return await delete(self.parts.backend, self.parts.queue, thread, forks=forks, moving=moving)

    async def prune(self, keep: Keep | None = None, *, dry_run: bool = False) -> Pruned:
        """Forget what is older than ``keep`` says; by default as this runtime's workers do by themselves."""
        return await prune(self.parts.backend, keep or self.parts.keep, dry_run=dry_run)


@contextlib.asynccontextmanager
async def _parts_of(to: Runtime | str) -> "AsyncIterator[Parts]":
    """The parts of a runtime, or of a store's URL, opened for a while."""
    if not isinstance(to, str):
        yield to.parts
        return
    async with open_parts(to) as parts:
        yield parts


def _is_reached(url: str, *, insist: bool) -> bool:
    """Whether a store can be opened now. ``insist``: raise what keeps it from that."""
    try:
        return url != "memory:" and is_there(url)
    except TorporError:
        if insist:
            raise
        return False


def _check_workers(workers: object) -> None:
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise Refused(f"workers must be a whole number, 0 or more, not {workers!r}.")


def _parts(words: Words) -> tuple[Part, ...]:
    return (Text(words),) if isinstance(words, str) else tuple(words)


def _event(item: Entry | LiveEvent) -> Event:
    if isinstance(item, LiveEvent):
        return Event(item.kind, 0, None, item.text, item.name)
    kind = type(item.message).__name__.lower()
    return Event(kind, item.position, item.message)
