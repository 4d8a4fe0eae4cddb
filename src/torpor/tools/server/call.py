"""What a tool's function sees of the call it serves."""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from torpor.tools.server import wire
from torpor.tools.server.content import ToolError, render, text_of
from torpor.tools.server.outbox import Kept, Outbox

EVENTS_PER_SECOND = 20.0
EVENT_BURST = 40


class ToolCall:
    """One call of a tool. A function gets it by taking a parameter annotated `ToolCall`.

    `id`, `thread` and `ancestors` (root first) say which call of which conversation this is; `user_id` for
    whom, if known; `key` is the same for every repeat of the call, so use it to make effects count once.
    `cancelled` is set when nobody wants the outcome any more. After a restart of the server, `restarted` is
    true and `memory` holds what the function last asked to remember. A function that is not async may read
    all of this; only an async one can subscribe.
    """

    def __init__(self, kept: Kept, *, outbox: Outbox, ring: Callable[[], None], restarted: bool) -> None:
        invocation = kept.invocation
        self.id = invocation.id
        self.thread = invocation.thread
        self.ancestors = invocation.ancestors
        self.user_id = invocation.user_id
        self.key = invocation.key or f"{invocation.thread}/{invocation.id}"
        self.operation = invocation.operation
        self.arguments = invocation.arguments
        self.deadline = invocation.deadline
        self.restarted = restarted
        self.memory: Any = kept.memory
        self.cancelled = asyncio.Event()
        self.subscribed = kept.state == "subscribed"
        self.finished = False
        self._seq = kept.seq
        self._outbox = outbox
        self._ring = ring
        self._pace = _Pace(EVENTS_PER_SECOND, EVENT_BURST)

    @property
    def idempotency_key(self) -> str:
        """The same as `key`."""
        return self.key

    async def subscribe(self, text: object, *, remember: Any = msgspec.UNSET) -> None:
        """Settle the call with `text` and keep it open as a subscription: `event` may follow.

        After a restart the subscription is already there, and this only keeps what to `remember`.
        """
        if self.subscribed:
            if remember is not msgspec.UNSET:
                await self.remember(remember)
            return
        rendered = render(text)
        said = rendered.get("text")
        if isinstance(said, str) and self.id not in said:
            rendered["text"] = f"{said.rstrip()} Subscription ID: {self.id}"
        if remember is not msgspec.UNSET:
            await self.remember(remember)
        members = wire.result_members(rendered, failed=False, subscription=True)
        if not await self._outbox.settle(self._seq, members, subscribed=True):
            raise ToolError("cancelled")
        self.subscribed = True
        self._ring()

    async def event(
        self,
        text: object,
        *,
        final: bool = False,
        associative: bool = False,
        occurred_at: datetime | None = None,
        remember: Any = msgspec.UNSET,
    ) -> bool:
        """Send one event of the subscription; anything but a str is sent as JSON.

        `associative` events go into the subscribing conversation, others may get one of their own. `final`
        ends the subscription. `remember` is kept together with the event, so that after a restart neither is
        there without the other. Waits where events come too fast. Returns False, and sends nothing, once the
        subscription was cancelled. Raises RuntimeError before `subscribe` and after a final event.
        """
        if not self.subscribed:
            raise RuntimeError("call subscribe() before sending events")
        if self.finished:
            raise RuntimeError("this subscription has had its final event")
        if not final:
            await self._pace.take()
        said = text_of(render(text))
        members = wire.event_members(said, final=final, associative=associative, occurred_at=occurred_at)
        kept = await self._outbox.event(self._seq, members, remember)
        if kept and final:
            self.finished = True
        if remember is not msgspec.UNSET:
            self.memory = remember
        self._ring()
        return kept

    async def remember(self, value: Any) -> None:
        """Keep a JSON value with the call; after a restart it is in `memory`."""
        await self._outbox.remember(self._seq, value)
        self.memory = value


class _Pace:
    """Lets `burst` through at once, then `rate` a second."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._free_at = 0.0

    async def take(self) -> None:
        now = time.monotonic()
        self._free_at = max(self._free_at, now - self._burst / self._rate) + 1 / self._rate
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)
