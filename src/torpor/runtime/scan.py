"""When a runtime starts, tool servers are asked once about all that is open with them.

What a server has lost while this runtime was away, or it was away itself, shows at once, not when its timer
is due. A server that cannot be reached is left alone: that it is away says nothing about its calls.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator

import msgspec

from torpor.core.codec import decode_head
from torpor.core.errors import Broken, Refused, TorporError, Unavailable
from torpor.core.moves import AWAY
from torpor.core.thread import Head
from torpor.ports import Clock, Row, Side, Store
from torpor.runtime.asking import Asking

log = logging.getLogger("torpor.scan")

SCANS = "scans"
"""Space of the instants at which servers were asked about all that is open, by base URL."""
SELDOM = 600.0
"""Seconds within which a server is asked so once, however often runtimes start."""
PAGE = 200
AT_ONCE = 8
"""Questions under way at once."""
PAUSE = 9.0
"""For how many times as long as a page took nothing is asked: a tenth of a process's time at most goes there,
however many threads there are."""


class Open(msgspec.Struct, frozen=True):
    """A call, or the subscription that it opened, at a tool server."""

    row: Row
    server: str
    call: str
    subscription: bool = False


async def scan(store: Store, side: Side, asking: Asking, servers: Collection[str], clock: Clock) -> None:
    """Ask these servers about every open call and subscription of all threads, page by page."""
    try:
        await _scan(store, side, asking, servers, clock)
    except TorporError as error:
        log.warning("What is open at tool servers could not be asked: %s", error)
    except Exception:
        log.exception("Asking what is open at tool servers failed in a way it should not")


async def _scan(store: Store, side: Side, asking: Asking, servers: Collection[str], clock: Clock) -> None:
    now = await store.now()
    servers = [server for server in servers if not await _was_asked(side, server, now)]
    round_, after = _Round(side, asking, now), ""
    while servers:
        begun = clock.now()
        rows = await store.threads(after=after, limit=PAGE)
        found = [one for row in rows for one in _open(row, servers)]
        await asyncio.gather(*(round_.ask(one) for one in found))
        if len(rows) < PAGE:
            return
        after = rows[-1].thread
        await clock.sleep(PAUSE * max(0.0, clock.now() - begun))


async def _was_asked(side: Side, server: str, now: float) -> bool:
    value = await side.get(SCANS, server)
    return value is not None and 0 <= now - msgspec.msgpack.decode(value, type=float) < SELDOM


class _Round:
    """One time of asking: who was asked, and who is away."""

    def __init__(self, side: Side, asking: Asking, now: float) -> None:
        self._side = side
        self._asking = asking
        self._now = now
        self._places = asyncio.Semaphore(AT_ONCE)
        self._asked: set[str] = set()
        self._away: set[str] = set()

    async def ask(self, one: Open) -> None:
        async with self._places:
            if one.server in self._away:
                return
            await self._note(one.server)
            try:
                alive = await self._asking.ask(one.row, one.server, one.call)
            except (Refused, Unavailable) as error:
                self._away.add(one.server)
                log.info("%s is not asked about its calls now: %s", one.server, error)
                return
            if alive is False:
                log.info("%s has lost the call %r of %r", one.server, one.call, one.row.thread)
                await self._asking.tell_lost(one.row, one.call, subscription=one.subscription)

    async def _note(self, server: str) -> None:
        """From here on the server counts as asked; one with nothing open never does."""
        if server not in self._asked:
            self._asked.add(server)
            await self._side.put(SCANS, server, msgspec.msgpack.encode(self._now))


def _open(row: Row, servers: Collection[str]) -> Iterator[Open]:
    """What is open of a thread at these servers."""
    if row.state in AWAY:
        return
    try:
        head = decode_head(row.head, row.shape)
    except (Unavailable, Broken):
        head = Head(state="closed")
    if head.state == "closed":
        return
    for id, call in {**head.pending, **head.detached}.items():
        if call.server in servers and not (call.given_up or call.held):
            yield Open(row, call.server, id)
    for id, subscription in head.subscriptions.items():
        if subscription.server in servers:
            yield Open(row, subscription.server, id, subscription=True)
