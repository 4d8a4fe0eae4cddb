"""What a callback is judged by: its token, the thread that it names, and what is open of its call."""

from collections.abc import Iterable

import msgspec

from torpor.core.messages import By
from torpor.core.signals import AnySignal, RequestedSignal
from torpor.core.thread import Head, OpenCall, Subscription
from torpor.core.waits import MOST
from torpor.ports import Row
from torpor.tools.signatures import ID, Secrets, Verified
from torpor.tools.strict import ID_LIMIT
from torpor.tools.tokens import Token


class Opened(msgspec.Struct, frozen=True):
    """A verified token, the thread it names, and what is open of its call."""

    token: Token
    row: Row
    head: Head | None
    """None where it could not be read: the core decides later whether the call is open."""
    call: OpenCall | Subscription | None
    secrets: Secrets | None = None
    """With which its tool server must sign what it sends."""
    headers: tuple[tuple[str, str], ...] = ()
    signed: Verified | None = None

    @property
    def is_open(self) -> bool:
        return self.call is not None or self.head is None

    @property
    def is_closed(self) -> bool:
        return self.head is not None and self.head.state == "closed"

    @property
    def webhook_id(self) -> str:
        """The id of the message, as its headers have it."""
        return next((value for name, value in self.headers if name.lower() == ID), "")[:ID_LIMIT]

    def by(self, digest: str) -> By:
        """Who sent a body of this digest, and how that was verified."""
        source = (self.call.server or self.call.name) if self.call else ""
        if self.signed is not None:
            return By("tool", source, "signature", str(self.signed.secret), digest)
        return By("tool", source, "callback", self.token.key_id, digest)

    def named(self, event_id: str) -> str:
        """The id that a message was given by its sender, of whatever sort; empty: none."""
        if event_id:
            return f"event/{event_id}"
        return f"webhook/{self.webhook_id}" if self.webhook_id else ""


def open_call(head: Head, call: str) -> OpenCall | Subscription | None:
    """A call that may still get a result, or the subscription that it opened."""
    if head.state == "closed":
        return None
    return head.pending.get(call) or head.detached.get(call) or head.subscriptions.get(call)


def asks_too_much(opened: Opened, inbox: Iterable[AnySignal]) -> bool:
    """Whether a call has as many questions open, or on their way, as it may."""
    call, waits = opened.token.call, opened.head.waits.values() if opened.head else ()
    coming = sum(isinstance(one, RequestedSignal) and one.call == call for one in inbox)
    return coming + sum(wait.call == call for wait in waits) >= MOST
