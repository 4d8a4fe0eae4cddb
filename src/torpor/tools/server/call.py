"""What a tool's function sees of the call it serves."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from torpor.core.text import clean, cleaned
from torpor.tools.server import wire
from torpor.tools.server.asked import Question, Standing
from torpor.tools.server.calls import Kept
from torpor.tools.server.content import ToolError, render, text_of
from torpor.tools.server.limit import Limit
from torpor.tools.server.outbox import Outbox
from torpor.tools.server.progress import Progress
from torpor.tools.server.questions import Questions
from torpor.tools.strict import Malformed

EVENTS_PER_SECOND = 20.0
EVENT_BURST = 40
PATIENCE = 86_400.0
"""Seconds that a tool waits for a person if it does not say how long."""
LARGEST_VIEW = 256 * 1024
MARGIN = 2.0  # seconds between the end of a wait and the deadline of its call
UNAUTHORIZED = "nobody has authorized this in time. Run the tool again to be asked again"
ONE_QUESTION = "this runtime asks people one question a call; the tool has a second one"


class Chosen(msgspec.Struct, frozen=True):
    """What a person chose: its index among the choices, and its text.

    `expired`: nobody chose in time, so it is the default.
    """

    index: int
    text: str
    expired: bool = False


class ToolCall:
    """One call of a tool. A function gets it by taking a parameter annotated `ToolCall`.

    `id`, `thread` and `ancestors` (root first) say which call of which conversation this is; `user_id` for
    whom, if known; `key` is the same for every repeat of the call, so use it to make effects count once.
    `cancelled` is set when nobody wants the outcome any more. After a restart of the server, `restarted` is
    true and `memory` holds what the function last asked to remember. A function that is not async may read
    all of this; only an async one can subscribe, ask people, and show things. While the function waits for a
    person its `timeout` is not counted.
    """

    def __init__(
        self,
        kept: Kept,
        *,
        outbox: Outbox,
        questions: Questions,
        limit: Limit,
        progress: Progress,
        ring: Callable[[], None],
        restarted: bool,
    ) -> None:
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
        self._questions = questions
        self._asked = 0
        self._asks_often = invocation.extended
        self._ring = ring
        self._limit = limit
        self._progress = progress
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

    async def choose(
        self, prompt: str, choices: Sequence[str], *, default: int = 0, expires: float = PATIENCE
    ) -> Chosen:
        """Have a person choose, and wait for that; after `expires` seconds the default counts.

        Ask before there is any effect, and with words that say what each choice does. After a restart a
        function that runs again finds what it asked before, and perhaps its answer. Raises ValueError for
        choices that cannot be asked, RuntimeError after `subscribe`, ToolError if there is no answer to come.
        """
        listed = [clean(choice) for choice in choices]
        if not listed or isinstance(choices, str) or not all(listed):
            raise ValueError("a person needs choices: one text or more")
        if not 0 <= default < len(listed):
            raise ValueError(f"the default must be an index of the {len(listed)} choices")
        members = {"prompt": clean(prompt), "choices": listed, "default": default}
        asked = await self._ask(members, len(listed), expires)
        if asked.state == "expired":
            return Chosen(default, listed[default], expired=True)
        return Chosen(asked.selected, listed[asked.selected])

    async def authorize(self, url: str, *, expires: float = PATIENCE) -> None:
        """Have a person open an https URL to authorize something, and wait until that is done.

        Your redirect target says so with `ToolServer.authorized`. The URL is given a `state`, unless it has
        one, by which `ToolServer.waiting` finds this call. Raises ValueError for another URL, RuntimeError
        after `subscribe`, ToolError if it was refused, or not done within `expires` seconds.
        """
        if not _is_https(url):
            raise ValueError("the authorization URL must be an absolute https URL")
        asked = await self._ask({"auth_url": url}, 0, expires)
        if asked.state == "expired":
            raise ToolError(UNAUTHORIZED)

    async def view(self, kind: str, content: Mapping[str, Any]) -> None:
        """Show people new content in the thread's view of this kind, such as `diff`; `{}` clears the view.

        The model never sees it. Raises ValueError for content that is no JSON object, or over 256 KiB.
        """
        try:
            shown = cleaned(msgspec.json.decode(msgspec.json.encode(content)))
        except (TypeError, msgspec.MsgspecError) as error:
            raise ValueError(f"the content of a view must have a JSON form: {error}") from None
        if not isinstance(shown, dict) or len(msgspec.json.encode(shown)) > LARGEST_VIEW:
            raise ValueError(f"the content of a view is a JSON object of at most {LARGEST_VIEW} bytes")
        try:
            kind = wire.read_id(kind, "the kind of a view")
        except Malformed as error:
            raise ValueError(str(error)) from None
        await self._outbox.view(self._seq, kind, shown, numbered=True)
        self._ring()

    async def progress(self, fraction: float | None, message: str = "") -> None:
        """Show people how far the call has come, from 0 to 1 (None: unknown), until the function ends.

        Call it as often as you like: a few times a second the latest is sent.
        """
        self._progress.update(self.id, fraction, clean(message))
        await asyncio.sleep(0)

    async def _ask(self, members: dict[str, Any], choices: int, expires: float) -> Standing:
        if self.subscribed:
            raise RuntimeError("ask people before subscribe(): afterwards the call is settled")
        place, self._asked = self._asked, self._asked + 1
        if place and not self._asks_often:
            raise ToolError(ONE_QUESTION)
        until = time.time() + expires
        if self.deadline is not None:
            until = min(until, self.deadline.timestamp() - MARGIN)
        question = Question(place=place, choices=choices, members=members, expires_at=until)
        with self._limit.paused():
            return await self._questions.ask(self._seq, question)

    async def remember(self, value: Any) -> None:
        """Keep a JSON value with the call; after a restart it is in `memory`."""
        await self._outbox.remember(self._seq, value)
        self.memory = value


def _is_https(url: str) -> bool:
    try:
        return wire.read_url(url, "").lower().startswith("https://")
    except Malformed:
        return False


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
