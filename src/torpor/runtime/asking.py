"""Effects that ask a tool server something: what a person chose is told, and whether a call is still alive.

An answer that settles a call is posted to its thread and acknowledges the effect in one write.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from torpor.core.effects import Cancel, Check, Choose, Effect, Invoke
from torpor.core.errors import Refused, Unavailable
from torpor.core.messages import By, Text
from torpor.core.retry import backoff
from torpor.core.signals import Finished, HappenedSignal
from torpor.ports import Row, Store
from torpor.runtime.ids import Ids

log = logging.getLogger("torpor.asking")

TELLINGS = 8
"""How often a choice is told in all: with backoff, about a minute."""
ASKED_AT_ONCE = 16
PAUSE = 1.0
"""Seconds after which it is looked again whether somebody else has sent the notice that goes first."""


class Asks(Protocol):
    """The way to tool servers for questions."""

    async def choose(self, row: Row, effect: Choose) -> None:
        """Tell a choice once. ``Refused`` and ``Unavailable`` as the transport says."""

    async def is_alive(self, row: Row, server: str, call: str) -> bool | None:
        """Whether a server still works on a call, or holds its subscription; None: it cannot tell.

        ``Unavailable`` if it is away.
        """

    async def cancel(self, row: Row, call: str, servers: tuple[str, ...]) -> None:
        """Tell servers that a call is no longer wanted; best effort."""


class Asking:
    """Performs what asks tool servers, for a dispatcher whose running tasks are ``tasks``."""

    def __init__(
        self,
        store: Store,
        courier: Asks,
        ids: Ids,
        ring: Callable[[Row, float], Awaitable[None]],
        tasks: Mapping[str, asyncio.Task[None]],
    ) -> None:
        self._store = store
        self._courier = courier
        self._ids = ids
        self._ring = ring
        self._tasks = tasks
        self._places = asyncio.Semaphore(ASKED_AT_ONCE)

    async def perform(self, row: Row, effect: Choose | Check, attempt: int, servers: tuple[str, ...]) -> None:
        """Perform one claimed effect. ``servers``: all that are told when a call is given up."""
        try:
            if isinstance(effect, Choose):
                await self._choose(row, effect, attempt, servers)
            else:
                await self._check(row, effect)
        except asyncio.CancelledError:
            # Told or asked twice does no harm: another process may go on at once.
            await self._again(row, effect, 0.0)
            raise

    async def _choose(self, row: Row, effect: Choose, attempt: int, servers: tuple[str, ...]) -> None:
        if not await self._cancelled_first(row, effect) and attempt < TELLINGS:
            await self._again(row, effect, await self._store.now() + PAUSE)
            return
        try:
            async with self._places:
                await self._courier.choose(row, effect)
        except Refused as error:
            await self._give_up(row, effect, str(error), servers)
        except Unavailable as error:
            if attempt >= TELLINGS:
                await self._give_up(row, effect, str(error), servers)
                return
            wait = max(backoff(attempt - 1, self._ids.jitter(), 0.5, 60.0), error.retry_after or 0.0)
            await self._again(row, effect, await self._store.now() + wait)
        else:
            await self._store.delivered(row.thread, [effect.id])

    async def _cancelled_first(self, row: Row, effect: Choose) -> bool:
        """Wait for the notice that the call is no longer wanted, if there is one; False: it is elsewhere."""
        notice = await self._in_outbox(row.thread, effect.call, Cancel)
        if notice is None:
            return True
        sending = self._tasks.get(f"{row.thread}/{notice}")
        if sending is None:
            return False
        await asyncio.wait([sending])
        return True

    async def _in_outbox(self, thread: str, call: str, kind: type[Cancel | Invoke]) -> str | None:
        """The id of a call's effect of some kind that is not acknowledged yet."""
        left: list[Effect] = [one.effect for one in await self._store.outbox(thread)]
        return next((one.id for one in left if isinstance(one, kind) and one.call == call), None)

    async def _again(self, row: Row, effect: Choose | Check, at: float) -> None:
        await self._store.release(row.thread, [effect.id], at)
        await self._ring(row, at)

    async def _give_up(self, row: Row, effect: Choose, why: str, servers: tuple[str, ...]) -> None:
        """Settle the call; its server, which waits for the choice, is told that it may stop."""
        log.warning("The choice for %r of %r could not be told: %s", effect.call, row.thread, why)
        signal = Finished(
            thread=row.thread,
            id=f"{effect.call}/undelivered",
            at=await self._store.now(),
            trace=row.trace,
            call=effect.call,
            parts=(
                Text(f"Error: a person's choice could not be told to the tool, which waits for it. {why}"),
            ),
            is_error=True,
            cause="undelivered",
        )
        await self._store.post([signal])
        await self._ring(row, 0.0)
        await self._courier.cancel(row, effect.call, servers)
        await self._store.delivered(row.thread, [effect.id])

    async def _check(self, row: Row, effect: Check) -> None:
        if await self.is_lost(row, effect.server, effect.call):
            signal = lost(row, effect.call, await self._store.now(), subscription=effect.subscription)
            await self._store.finish(signal, effect.id)
            await self._ring(row, 0.0)
        else:
            await self._store.delivered(row.thread, [effect.id])

    async def is_lost(self, row: Row, server: str, call: str) -> bool:
        """Ask a server about a call; False also where nobody knows."""
        try:
            return await self.ask(row, server, call) is False
        except (Refused, Unavailable) as error:
            log.info("%s was asked about the call %r of %r: %s", server, call, row.thread, error)
            return False

    async def ask(self, row: Row, server: str, call: str) -> bool | None:
        """Ask a server about a call, unless it has not been handed over yet; raises if it is away."""
        if await self._in_outbox(row.thread, call, Invoke):
            return None
        async with self._places:
            return await self._courier.is_alive(row, server, call)

    async def tell_lost(self, row: Row, call: str, *, subscription: bool) -> None:
        """Post to a thread that nothing more comes of a call."""
        await self._store.post([lost(row, call, await self._store.now(), subscription=subscription)])
        await self._ring(row, 0.0)


def lost(row: Row, call: str, at: float, *, subscription: bool) -> Finished | HappenedSignal:
    """What a thread is told of a call, or of a subscription, that its tool server does not know any more."""
    by = By("runtime")
    if subscription:
        text = "The tool server no longer holds this subscription, so no more events will come of it."
        return HappenedSignal(
            row.thread, f"{call}/lost", at, by, trace=row.trace,
            call=call, parts=(Text(text),), final=True, associative=True,
        )  # fmt: skip
    text = (
        "Error: the tool server no longer works on this call, so no result will come. "
        "The call may have taken effect."
    )
    return Finished(
        row.thread, f"{call}/dead", at, by, trace=row.trace,
        call=call, parts=(Text(text),), is_error=True, cause="dead",
    )  # fmt: skip
