"""What tool servers send back: each body is checked, made a signal, and stored before it is answered.

Nothing here decides what a thread does with the news; the core judges that when it absorbs the signal.
"""

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import msgspec

from torpor.core.codec import decode_head
from torpor.core.errors import Broken, Refused, Unavailable
from torpor.core.messages import By, Text
from torpor.core.moves import ARRIVING, AWAY, MOVED, MOVING
from torpor.core.signals import AnySignal, Finished, HappenedSignal, RequestedSignal
from torpor.core.thread import OpenCall, Subscription
from torpor.core.tiers import not_before, start_by
from torpor.core.waits import MOST
from torpor.ports import AUTHORIZATIONS, FORWARDS, WEBHOOKS, Clock, Live, Ring, Side, Store
from torpor.tools.catalog import RapServer
from torpor.tools.opened import Opened, asks_too_much, open_call
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
from torpor.tools.signatures import Secrets, Unsigned
from torpor.tools.strict import Malformed
from torpor.tools.tokens import Keys, Token, mark_of
from torpor.tools.views import Unshown, Views

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


_FORBIDDEN = Outcome(403, "The callback token is not valid.")
_CONTRADICTS = Outcome(403, "The body names another thread or call than its callback URL.")
_UNKNOWN = Outcome(404, "There is no such thread.")
_GONE = Outcome(410, "The call is settled and has no open subscription; send nothing more for it.")
_TAKEN = Outcome(200)


Forward = Callable[[str, bytes, tuple[tuple[str, str], ...]], Awaitable[Outcome]]
"""Hands a callback on to a URL; gives how that answered it."""


class Callbacks:
    """Receives callbacks. One object serves all threads of a store.

    ``servers``: those that are configured here, of which some sign what they send. ``live`` is told of views.
    ``forward`` hands on what is for threads that have left this store.
    ``fresh`` names events that carry no identity: every delivery of such an event counts as new.
    """

    def __init__(
        self,
        store: Store,
        side: Side,
        keys: Keys,
        clock: Clock,
        *,
        servers: Iterable[RapServer] = (),
        live: Live | None = None,
        forward: Forward | None = None,
        body_limit: int = BODY_LIMIT,
        result_kept: int = RESULT_KEPT,
        at_once: int = AT_ONCE,
        fresh: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._store = store
        self._side = side
        self._keys = keys
        self._clock = clock
        self._servers = {server.url: server for server in servers}
        self._marks = {mark_of(url): url for url in self._servers}
        self._views = Views(side, clock, live)
        self._forward = forward
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
        return None if scope.partition("@")[0] == "call" else _FORBIDDEN

    async def receive(self, token: str, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> Outcome:
        """The whole way of one callback, which came with these headers: all of them, repeated ones too.

        A ``webhook-id`` identifies events that carry no id of their own.
        """
        if len(body) > self.body_limit:
            return await self.too_large(token)
        said = tuple(headers)
        return await self._answer(token, lambda opened: self._taken(opened, body, said))

    async def too_large(self, token: str) -> Outcome:
        """The answer for a body over ``body_limit``, of which nothing needs to have been read."""
        text = f"the answer of its tool server is larger than {self.body_limit:,} bytes"
        return await self._answer(token, lambda opened: self._unusable(opened, 413, text))

    async def _taken(self, opened: Opened, body: bytes, headers: tuple[tuple[str, str], ...]) -> Outcome:
        """Judge a body, once, if it has to be signed and is; or have that done where its thread is now."""
        if opened.row.state == MOVED:
            return await self._handed_on(opened.token, body, headers)
        opened = msgspec.structs.replace(opened, headers=headers)
        if opened.secrets is None:
            return await self._judge(opened, body)
        try:
            check = opened.secrets.verify
            signed = await aside(len(body), check, headers, body, self._clock.now())
        except Unsigned as error:
            return self._refused(opened, Outcome(401, str(error)))
        key = f"{opened.token.thread}/{opened.token.call}/{signed.id}"
        if await self._side.get(WEBHOOKS, key) is not None:
            return _TAKEN
        outcome = await self._judge(msgspec.structs.replace(opened, signed=signed), body)
        if outcome.status == 200:
            await self._side.put(WEBHOOKS, key, b"1")
        return outcome

    async def _handed_on(self, token: Token, body: bytes, headers: tuple[tuple[str, str], ...]) -> Outcome:
        url = await self._side.get(FORWARDS, f"{token.thread}/{token.call}")
        if url is None or self._forward is None:
            return _GONE
        return await self._forward(url.decode(), body, headers)

    async def _answer(self, token: str, work: Callable[[Opened], Awaitable[Outcome]]) -> Outcome:
        if self._under_way >= self.at_once:
            return Outcome(503, "Too many callbacks at once.", retry_after=RETRY_SECONDS)
        self._under_way += 1
        try:
            outcome = await self.admits(token)
            if outcome is None:
                opened = await self._open(await self._keys.read(token))
                outcome = await work(opened) if opened else _UNKNOWN
        except Refused:  # its thread was deleted meanwhile
            outcome = _UNKNOWN
        except (Unavailable, Broken) as error:
            outcome = _busy(error)
        finally:
            self._under_way -= 1
        return outcome

    async def _open(self, token: Token) -> Opened | None:
        row = await self._store.row(token.thread)
        if row is None:
            return None
        if row.state in (MOVING, ARRIVING):
            raise Unavailable("The thread is moving; send it again.")
        try:
            head = decode_head(row.head, row.shape)
        except (Unavailable, Broken):
            return Opened(token, row, None, None, self._secrets_of(token, None))
        call = open_call(head, token.call)
        return Opened(token, row, head, call, self._secrets_of(token, call))

    def _secrets_of(self, token: Token, call: OpenCall | Subscription | None) -> Secrets | None:
        """What a call's server must sign with; ``Unavailable`` if only another process knows."""
        url = (call.server if call else "") or self._marks.get(token.server, "")
        server = self._servers.get(url)
        if server is None and token.server:
            raise Unavailable("Its tool server signs what it sends, and is not configured here.")
        return server.secrets if server else None

    async def _judge(self, opened: Opened, body: bytes) -> Outcome:
        try:
            message, digest = await aside(len(body), _read, body)
        except Malformed as error:
            return await self._malformed(opened, error)
        if _contradicts(opened.token, message.thread, message.call):
            return self._refused(opened, _CONTRADICTS)
        match message:
            case View():
                return await self._view(opened, message)
            case ToolResult():
                return await self._result(opened, message, opened.by(digest))
            case Event():
                return await self._event(opened, message, opened.by(digest))
            case _:
                return await self._asks(opened, message, opened.by(digest))

    async def _view(self, opened: Opened, message: View) -> Outcome:
        """Keep a view, of a call that may be settled long since; a closed thread's is dropped."""
        if opened.is_closed:
            return _TAKEN
        head = opened.head
        try:
            open_calls = {*head.pending, *head.detached} if head else ()
            server = opened.call.server if opened.call else ""
            await self._views.take(message, opened.token.call, open_calls, server)
        except Unshown as error:
            return self._refused(opened, Outcome(error.status, str(error)))
        await self._still_here(opened)
        return _TAKEN

    async def _malformed(self, opened: Opened, error: Malformed) -> Outcome:
        if _contradicts(opened.token, error.thread, error.call):
            return self._refused(opened, _CONTRADICTS)
        if error.type in SETTLE_NOTHING:
            return self._refused(opened, Outcome(400, str(error)))
        outcome = await self._unusable(opened, 400, "the answer of its tool server is malformed")
        return msgspec.structs.replace(outcome, text=str(error))

    async def _unusable(self, opened: Opened, status: int, why: str) -> Outcome:
        """Refuse a body, and settle its call, since nobody sends again what was refused."""
        ring = None
        if opened.secrets is not None and opened.signed is None:
            return self._refused(opened, Outcome(status, f"Not taken: {why}."))  # nobody knows who sent it
        if isinstance(opened.call, OpenCall) or opened.head is None:
            text = f"Error: no result, because {why}. The call may have taken effect."
            signal = self._settling(opened, "unusable", text)
            ring = (await self._post(opened, signal)).ring
        return self._refused(opened, Outcome(status, f"Not taken: {why}.", ring))

    async def _result(self, opened: Opened, message: ToolResult, by: By) -> Outcome:
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
        await self._authorized(opened)
        return await self._post(opened, signal)

    async def _authorized(self, opened: Opened) -> None:
        """Forget where a call's authorizations were to be had: its result is there."""
        waits = opened.head.waits.values() if opened.head else ()
        for wait in waits:
            if wait.call == opened.token.call and wait.kind == "authorization":
                await self._side.put(AUTHORIZATIONS, f"{opened.token.thread}/{wait.url}", b"")

    async def _event(self, opened: Opened, message: Event, by: By) -> Outcome:
        id = f"{message.call}/{self._identity(opened, message)}"
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
            event_id=message.event_id or opened.webhook_id,
            seq=message.seq,
            occurred_at=message.occurred_at,
            natural_key=message.natural_key,
        )
        return await self._post(opened, signal)

    def _identity(self, opened: Opened, message: Event) -> str:
        """What makes two deliveries the same event: the source's own key, else an id, else nothing."""
        if message.natural_key:
            return f"key/{message.natural_key}"
        return opened.named(message.event_id) or f"fresh/{self._fresh()}"

    async def _asks(self, opened: Opened, message: Authorization | Choice, by: By) -> Outcome:
        """The tool wants a person; one that names nothing else asks once of each kind for a call."""
        kind = "authorization" if isinstance(message, Authorization) else "choice"
        named = opened.named(message.event_id)
        id = f"{message.call}/{kind}/{named}" if named else f"{message.call}/{kind}"
        if not opened.is_open:
            return await self._late(opened, id)
        if isinstance(opened.call, Subscription):
            return self._refused(opened, Outcome(400, "The call is settled, so nobody is asked for it."))
        many = asks_too_much(opened, await self._store.inbox(message.thread))
        if many and not await self._side.seen(message.thread, id):
            return self._refused(opened, Outcome(400, f"A call may ask people for {MOST} things at a time."))
        signal = RequestedSignal(
            message.thread, id, self._clock.now(), by, call=message.call, kind=kind, expires=message.expires
        )
        if isinstance(message, Authorization):
            # Its URL is good for one person and for a while: it stays out of history, which lasts.
            await self._side.put(AUTHORIZATIONS, f"{message.thread}/{id}", message.url.encode())
        return await self._post(opened, _asking(signal, message))

    async def _late(self, opened: Opened, signal_id: str) -> Outcome:
        """For a call with nothing open: a repeat of what was taken is fine, anything else must stop."""
        seen = await self._side.seen(opened.token.thread, signal_id)
        return _TAKEN if seen else self._refused(opened, _GONE)

    def _settling(self, opened: Opened, kind: str, text: str) -> Finished:
        return Finished(
            thread=opened.token.thread,
            id=f"{opened.token.call}/{kind}",
            at=self._clock.now(),
            call=opened.token.call,
            parts=(Text(text),),
            is_error=True,
            cause=UNUSABLE,
        )

    async def _post(self, opened: Opened, signal: AnySignal) -> Outcome:
        [posted] = await self._store.post([signal])
        if posted.outcome == "unknown":
            return _UNKNOWN
        await self._still_here(opened)
        row = opened.row
        by = start_by(row.tier, signal.at)
        ring = Ring(row.thread, by, not_before(row.tier, by), row.tier, row.owner, row.agent)
        return Outcome(200, "", ring)

    async def _still_here(self, opened: Opened) -> None:
        """Raise ``Unavailable`` if the thread has left since: what was written may not be with it."""
        row = await self._store.row(opened.token.thread)
        if row is None or (row.state in AWAY and opened.row.state not in AWAY):
            raise Unavailable("The thread is moving; send it again.")

    async def _put(self, opened: Opened, handle: str, body: bytes) -> None:
        await self._side.put_blob(opened.token.thread, handle, body)

    def _refused(self, opened: Opened, outcome: Outcome) -> Outcome:
        token = opened.token
        logger.info("callback for %r of %r: %d %s", token.call, token.thread, outcome.status, outcome.text)
        return outcome


def _asking(signal: RequestedSignal, message: Authorization | Choice) -> RequestedSignal:
    change = msgspec.structs.replace
    if isinstance(message, Authorization):
        return change(signal, url=signal.id)
    return change(
        signal,
        prompt=message.prompt,
        choices=message.choices,
        default=str(message.default),
        url=message.response_url,
    )


def _contradicts(token: Token, thread: str, call: str) -> bool:
    return bool((thread and thread != token.thread) or (call and call != token.call))


def _read(body: bytes) -> tuple[AnyCallback, str]:
    """What a body says, and its digest."""
    return parse_callback(body), hashlib.sha256(body).hexdigest()


def _busy(error: Unavailable | Broken) -> Outcome:
    logger.warning("a callback could not be stored: %s", error)
    wait = error.retry_after if isinstance(error, Unavailable) else None
    return Outcome(503, "The store is not available; send it again.", retry_after=wait or RETRY_SECONDS)
