"""MCP servers as tool servers of the runtime: their manifests, their calls, and what people answer."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from torpor.core.codec import decode_head
from torpor.core.errors import TorporError
from torpor.core.signals import AnySignal
from torpor.core.tiers import not_before, start_by
from torpor.core.views import PROGRESS, View, views_space
from torpor.ports import Clock, Later, Live, Queue, Ring, Side, Store
from torpor.tools import protocol
from torpor.tools.bridged import McpServer
from torpor.tools.functions import ResultParts
from torpor.tools.mcp.answering import Answering
from torpor.tools.mcp.asking import Asking, number_of
from torpor.tools.mcp.authorization import Authorizations
from torpor.tools.mcp.calls import Calls, tell_cancelled
from torpor.tools.mcp.records import Facts, Record, Records, Run
from torpor.tools.mcp.sampling import Models, Sampler
from torpor.tools.mcp.sessions import Sessions
from torpor.tools.mcp.signing import Signing
from torpor.tools.views import Unshown, Views

log = logging.getLogger("torpor.mcp")

SHOWN_EVERY = 1.0
"""Seconds between views of how far a call is."""
SHOWN_MOST = 4_096

Hasten = Callable[[str, str], Awaitable[None]]
"""Has a call of a thread looked at now."""


class McpBridge:
    """All MCP servers of one process. ``hasten``: see ``Dispatcher.hasten``."""

    def __init__(
        self,
        servers: Iterable[McpServer],
        store: Store,
        side: Side,
        queue: Queue,
        clock: Clock,
        *,
        hasten: Hasten,
        models: Models,
        live: Live | None = None,
        authorizations: Authorizations | None = None,
    ) -> None:
        self._store = store
        self._side = side
        self._queue = queue
        self._clock = clock
        self._hasten = hasten
        self._records = Records(side)
        self._views = Views(side, clock, live)
        self._shown: dict[tuple[str, str], float] = {}
        self._asking = Asking(store, side, self._post)
        answering = Answering(self._asking, Sampler(store, clock, models))
        self._signing = Signing(store, side, self._records, self._post, authorizations)
        auth = authorizations.auth if authorizations is not None else None
        self.sessions = Sessions(servers, side, auth=auth)
        self._calls = Calls(
            self.sessions,
            side,
            clock,
            asking=self._asking,
            answering=answering,
            signing=self._signing,
            show=self._show,
        )

    async def manifest(self, address: str, user: str = "") -> bytes:
        """A server's manifest: from a live connection, else the last one known."""
        return await self.sessions.manifest(address, user)

    def has_changed(self, address: str, hash: str, user: str = "") -> bool:
        """Whether a server has other tools by now."""
        return self.sessions.has_changed(address, hash, user)

    async def has_begun(self, context: Facts) -> bool:
        """Whether an earlier run may have reached the server."""
        record = await self._records.get(context.thread, context.call)
        return record is not None and record.phase != ""

    async def run(self, context: Facts, arguments: dict[str, Any]) -> ResultParts | Later:
        """Carry a call on until its result, or until nothing has to run for it for a while."""
        record = await self._records.get(context.thread, context.call)
        run = Run(context, record or Record(context.server), self._records, self._clock)
        outcome = await self._calls.carry_on(run, arguments)
        if isinstance(outcome, ResultParts):
            self._shown.pop((context.thread, context.call), None)
            await self._clear(run)
        return outcome

    async def forget(self, thread: str, call: str) -> None:
        """A call's result is stored."""
        await self._records.forget(thread, call)

    async def cancel(self, address: str, thread: str, call: str) -> None:
        """Tell a server, best effort, that a call is no longer wanted; one that is under way here is told."""
        record = await self._records.get(thread, call)
        if record is None or record.server != address:
            return
        try:
            await self._signing.give_up(thread, call)
            if record.task:
                row = await self._store.row(thread)
                root, user = (row.root or thread, row.user_id) if row else (thread, "")
                await tell_cancelled(await self.sessions.session(address, root, user), record.task)
        except TorporError as error:
            log.info("%s could not be told of the call %r: %s", address, call, error)
        await self._records.forget(thread, call)

    async def close_thread(self, thread: str) -> None:
        """A thread is closed: connections of its own end."""
        await self.sessions.close_thread(thread)

    async def choose(self, thread: str, call: str, question: str, value: str) -> None:
        """A person has answered: keep it, and have the call go on."""
        number = number_of(question)
        if number and await self._records.get(thread, call) is not None:
            await self._records.answer(thread, call, number, value)
            self._asking.tell(thread, call, number)
            await self._hasten(thread, call)

    async def close(self) -> None:
        """Let go of all servers. Idempotent."""
        await self.sessions.close()

    async def signed(self, thread: str, call: str, outcome: str) -> None:
        """A person came back from signing in for a call; see ``Authorizations.settled``."""
        await self._signing.settled(thread, call, outcome)
        await self._hasten(thread, call)

    async def _post(self, signal: AnySignal) -> bool:
        [posted] = await self._store.post([signal])
        if posted.outcome == "unknown":
            return False
        by = start_by(posted.tier, signal.at)
        ring = Ring(signal.thread, by, not_before(posted.tier, by), posted.tier, posted.owner, posted.agent)
        await self._queue.ring([ring])
        return True

    async def _show(self, run: Run, done: float, total: float | None, message: str) -> None:
        """Show how far a call is, now and then."""
        key, now = (run.facts.thread, run.facts.call), self._clock.now()
        if now - self._shown.get(key, float("-inf")) < SHOWN_EVERY:
            return
        if len(self._shown) > SHOWN_MOST:
            self._shown.clear()  # calls that ended in other processes
        self._shown[key] = now
        content: dict[str, Any] = {"tool_call_id": run.facts.call, "name": run.facts.name}
        if total and 0 <= done <= total:
            content["fraction"] = done / total
        words = message or (f"{done:g}" if not total and done else "")
        await self._view(run, {**content, "message": words} if words else content)

    async def _clear(self, run: Run) -> None:
        """Show no longer how far a call is, if that is what is shown, perhaps by a process that has died."""
        try:
            kept = await self._side.get(views_space(run.facts.thread), PROGRESS)
        except TorporError:
            return  # it must not cost the result
        content = msgspec.msgpack.decode(kept, type=View).content if kept else ""
        if content and msgspec.json.decode(content).get("tool_call_id") == run.facts.call:
            await self._view(run, {})

    async def _view(self, run: Run, content: dict[str, Any]) -> None:
        thread, call = run.facts.thread, run.facts.call
        text = msgspec.json.encode(content).decode()
        view = protocol.View(thread=thread, call=call, type=PROGRESS, content=content, text=text)
        try:
            row = await self._store.row(thread)
            head = decode_head(row.head, row.shape) if row else None
            await self._views.take(view, call, {*head.pending, *head.detached} if head else ())
        except (Unshown, TorporError) as error:
            log.info("The progress of %r could not be shown: %s", call, error)
