"""What tool servers send back: each body is checked, made a signal, and stored before it is answered.

Nothing here decides what a thread does with the news; the core judges that when it absorbs the signal.
"""

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from torpor.core.codec import decode_head
from torpor.core.errors import Broken, Refused, Unavailable
from torpor.core.messages import By, Text
from torpor.core.signals import AnySignal, Finished, HappenedSignal
from torpor.core.thread import Head, OpenCall, Subscription
from torpor.core.tiers import not_before, start_by
from torpor.ports import Clock, Ring, Row, Side, Store
from torpor.tools.protocol import (
    SETTLE_NOTHING,
    AnyCallback,
    Authorization,
    Choice,
    Event,
    ToolResult,
    View,
    parse_callback,
)
from torpor.tools.results import RESULT_KEPT, aside, bounded
from torpor.tools.strict import ID_LIMIT, Malformed
from torpor.tools.tokens import Keys, Token

BODY_LIMIT = 64 * 1024 * 1024
"""Bytes of one callback body that are taken."""
AT_ONCE = 4_096
"""Callbacks that are worked on at the same time; more are told to come again."""
RETRY_SECONDS = 5.0
HASH_KEPT = 32
"""Hexadecimal digits of a body's hash that stand in a signal's id."""
UNUSABLE = "undelivered"
"""Cause of results made here: the call stays open for one real result, which arrives as news."""

logger = logging.getLogger(__name__)


class Outcome(msgspec.Struct, frozen=True):
    """How to answer a callback, and which thread to ring, if any: after this, its news is durable."""

    status: int
    text: str = ""
    ring: Ring | None = None
    retry_after: float = 0.0
    """Seconds for a ``Retry-After`` header; 0: none."""


class _Opened(msgspec.Struct, frozen=True):
    """A verified token, the thread it names, and what is open of its call."""

    token: Token
    row: Row
    call: OpenCall | Subscription | None
    readable: bool
    """The head could be read; where it could not, the core decides later whether the call is open."""

    @property
    def is_open(self) -> bool:
        return self.call is not None or not self.readable

    def by(self, digest: str) -> By:
        """Who sent a body of this digest, and how that was verified."""
        source = (self.call.server or self.call.name) if self.call else ""
        return By("tool", source, "callback", self.token.key_id, digest)


_FORBIDDEN = Outcome(403, "The callback token is not valid.")
_CONTRADICTS = Outcome(403, "The body names another thread or call than its callback URL.")
_UNKNOWN = Outcome(404, "There is no such thread.")
_GONE = Outcome(410, "The call is settled and has no open subscription; send nothing more for it.")
_TAKEN = Outcome(200)


class Callbacks:
    """Receives callbacks. One object serves all threads of a store.

    ``fresh`` names events that carry no identity: every delivery of such an event counts as new.
    """

    def __init__(
        self,
        store: Store,
        side: Side,
        keys: Keys,
        clock: Clock,
        *,
        body_limit: int = BODY_LIMIT,
        result_kept: int = RESULT_KEPT,
        at_once: int = AT_ONCE,
        fresh: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._store = store
        self._side = side
        self._keys = keys
        self._clock = clock
        self.body_limit = body_limit
        self._result_kept = result_kept
        self.at_once = at_once
        self._fresh = fresh
        self._under_way = 0

    def proof(self, challenge: str) -> str:
        """What only a process of this store can answer to a challenge; empty without one."""
        return self._keys.proof(challenge)

    async def admits(self, token: str) -> Outcome | None:
        """None if a body may be read for this token; else the answer. Asks the keys only, not the store."""
        try:
            scope = (await self._keys.read(token)).scope
        except Refused:
            return _FORBIDDEN
        except (Unavailable, Broken) as error:
            return _busy(error)
        return None if scope == "call" else _FORBIDDEN

    async def receive(self, token: str, body: bytes, *, webhook_id: str = "") -> Outcome:
        """The whole way of one callback.

        ``webhook_id`` is the header of that name; it identifies events that carry no id of their own.
        """
        if len(body) > self.body_limit:
            return await self.too_large(token)
        return await self._answer(token, lambda opened: self._judge(opened, body, webhook_id))

    async def too_large(self, token: str) -> Outcome:
        """The answer for a body over ``body_limit``, of which nothing needs to have been read."""
        text = f"the answer of its tool server is larger than {self.body_limit:,} bytes"
        return await self._answer(token, lambda opened: self._unusable(opened, 413, text))

    async def _answer(self, token: str, work: Callable[[_Opened], Awaitable[Outcome]]) -> Outcome:
        if self._under_way >= self.at_once:
            return Outcome(503, "Too many callbacks at once.", retry_after=RETRY_SECONDS)
        self._under_way += 1
        try:
            outcome = await self.admits(token)
            if outcome is None:
                opened = await self._open(await self._keys.read(token))
                outcome = await work(opened) if opened else _UNKNOWN
        except (Unavailable, Broken) as error:
            outcome = _busy(error)
        finally:
            self._under_way -= 1
        return outcome

    async def _open(self, token: Token) -> _Opened | None:
        row = await self._store.row(token.thread)
        if row is None:
            return None
        try:
            head = decode_head(row.head, row.shape)
        except (Unavailable, Broken):
            return _Opened(token, row, None, readable=False)
        return _Opened(token, row, _open_call(head, token.call), readable=True)

    async def _judge(self, opened: _Opened, body: bytes, webhook_id: str) -> Outcome:
        try:
            message, digest = await aside(len(body), _read, body)
        except Malformed as error:
            return await self._malformed(opened, error)
        if _contradicts(opened.token, message.thread, message.call):
            return self._refused(opened, _CONTRADICTS)
        match message:
            case View():
                return _TAKEN
            case ToolResult():
                return await self._result(opened, message, opened.by(digest))
            case Event():
                return await self._event(opened, message, opened.by(digest), webhook_id)
            case _:
                return await self._asks(opened, message)

    async def _malformed(self, opened: _Opened, error: Malformed) -> Outcome:
        if _contradicts(opened.token, error.thread, error.call):
            return self._refused(opened, _CONTRADICTS)
        if error.type in SETTLE_NOTHING:
            return self._refused(opened, Outcome(400, str(error)))
        outcome = await self._unusable(opened, 400, "the answer of its tool server is malformed")
        return msgspec.structs.replace(outcome, text=str(error))

    async def _unusable(self, opened: _Opened, status: int, why: str) -> Outcome:
        """Refuse a body, and settle its call, since nobody sends again what was refused."""
        ring = None
        if isinstance(opened.call, OpenCall) or not opened.readable:
            text = f"Error: no result, because {why}. The call may have taken effect."
            signal = self._settling(opened, "unusable", text)
            ring = (await self._post(opened, signal)).ring
        return self._refused(opened, Outcome(status, f"Not taken: {why}.", ring))

    async def _result(self, opened: _Opened, message: ToolResult, by: By) -> Outcome:
        id = f"{message.call}/result/{by.body_hash[:HASH_KEPT]}"
        if not opened.is_open:
            return await self._late(opened, id)
        kept = await bounded(message.parts, partial(self._put, opened), limit=self._result_kept)
        signal = Finished(
            thread=message.thread,
            id=id,
            at=self._clock.now(),
            by=by,
            call=message.call,
            parts=kept.parts,
            is_error=message.is_error,
            handle=kept.handle,
            size=kept.size,
            display=message.display,
            subscription=message.subscription,
            event_id=message.event_id,
            occurred_at=message.occurred_at,
        )
        return await self._post(opened, signal)

    async def _event(self, opened: _Opened, message: Event, by: By, webhook_id: str) -> Outcome:
        id = f"{message.call}/{self._identity(message, webhook_id)}"
        if not opened.is_open:
            return await self._late(opened, id)
        kept = await bounded((Text(message.text),), partial(self._put, opened), limit=self._result_kept)
        signal = HappenedSignal(
            thread=message.thread,
            id=id,
            at=self._clock.now(),
            by=by,
            call=message.call,
            parts=kept.parts,
            handle=kept.handle,
            size=kept.size,
            final=message.final,
            associative=message.associative,
            event_id=message.event_id or webhook_id[:ID_LIMIT],
            seq=message.seq,
            occurred_at=message.occurred_at,
            natural_key=message.natural_key,
        )
        return await self._post(opened, signal)

    def _identity(self, message: Event, webhook_id: str) -> str:
        """What makes two deliveries the same event: the source's own key, else an id, else nothing."""
        if message.natural_key:
            return f"key/{message.natural_key}"
        if message.event_id:
            return f"event/{message.event_id}"
        return f"webhook/{webhook_id[:ID_LIMIT]}" if webhook_id else f"fresh/{self._fresh()}"

    async def _asks(self, opened: _Opened, message: Authorization | Choice) -> Outcome:
        """The tool wants a person; until that can be arranged, the model is told so."""
        kind = "authorization" if isinstance(message, Authorization) else "choice"
        if not opened.is_open:
            return await self._late(opened, f"{message.call}/{kind}")
        what = "authorize it" if isinstance(message, Authorization) else f"choose: {message.prompt[:500]}"
        text = f"Error: the tool waits for a person to {what}. That cannot be arranged from here."
        return await self._post(opened, self._settling(opened, kind, text))

    async def _late(self, opened: _Opened, signal_id: str) -> Outcome:
        """For a call with nothing open: a repeat of what was taken is fine, anything else must stop."""
        seen = await self._side.seen(opened.token.thread, signal_id)
        return _TAKEN if seen else self._refused(opened, _GONE)

    def _settling(self, opened: _Opened, kind: str, text: str) -> Finished:
        return Finished(
            thread=opened.token.thread,
            id=f"{opened.token.call}/{kind}",
            at=self._clock.now(),
            call=opened.token.call,
            parts=(Text(text),),
            is_error=True,
            cause=UNUSABLE,
        )

    async def _post(self, opened: _Opened, signal: AnySignal) -> Outcome:
        [posted] = await self._store.post([signal])
        if posted.outcome == "unknown":
            return _UNKNOWN
        row = opened.row
        by = start_by(row.tier, signal.at)
        ring = Ring(row.thread, by, not_before(row.tier, by), row.tier, row.owner, row.agent)
        return Outcome(200, "", ring)

    async def _put(self, opened: _Opened, handle: str, body: bytes) -> None:
        await self._side.put_blob(opened.token.thread, handle, body)

    def _refused(self, opened: _Opened, outcome: Outcome) -> Outcome:
        token = opened.token
        logger.info("callback for %r of %r: %d %s", token.call, token.thread, outcome.status, outcome.text)
        return outcome


def _open_call(head: Head, call: str) -> OpenCall | Subscription | None:
    if head.state == "closed":
        return None
    return head.pending.get(call) or head.detached.get(call) or head.subscriptions.get(call)


def _contradicts(token: Token, thread: str, call: str) -> bool:
    return bool((thread and thread != token.thread) or (call and call != token.call))


def _read(body: bytes) -> tuple[AnyCallback, str]:
    """What a body says, and its digest."""
    return parse_callback(body), hashlib.sha256(body).hexdigest()


def _busy(error: Unavailable | Broken) -> Outcome:
    logger.warning("a callback could not be stored: %s", error)
    wait = error.retry_after if isinstance(error, Unavailable) else None
    return Outcome(503, "The store is not available; send it again.", retry_after=wait or RETRY_SECONDS)
