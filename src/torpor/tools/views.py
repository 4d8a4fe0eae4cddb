"""Views that tool servers send: bounded, kept as they came, told to whoever watches. They wake nobody."""

import asyncio
from collections.abc import Collection

import msgspec

from torpor.core.codec import decode_kept
from torpor.core.views import PROGRESS, PROGRESS_SPACE, Progress, View, views_space
from torpor.ports import Clock, Live, LiveEvent, Side
from torpor.tools import protocol

VIEW_LIMIT = 256 * 1024
"""Bytes of one view."""
VIEWS_KEPT = 100
"""Types of views that a thread may show at a time."""
CLEARED_KEPT = 1_000
"""Types of views that a thread may have shown ever."""
MESSAGE_KEPT = 300


class Unshown(Exception):
    """A view that is not taken. ``status``: how to answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Views:
    """Keeps the views of all threads of a store."""

    def __init__(self, side: Side, clock: Clock, live: Live | None = None) -> None:
        self._side = side
        self._clock = clock
        self._live = live
        self._one_by_one = asyncio.Lock()

    async def take(
        self, sent: protocol.View, call: str, open_calls: Collection[str], server: str = ""
    ) -> None:
        """Keep a view, which came on the callback URL of ``call``; ``Unshown`` if there is no room for it.

        One that is older than what its server has sent changes nothing. Numbers of another server do not
        count: each begins where it likes.
        """
        if len(sent.text.encode()) > VIEW_LIMIT:
            raise Unshown(413, f"A view may have {VIEW_LIMIT:,} bytes.")
        view = View(sent.type, sent.text if sent.content else "", sent.seq, self._clock.now(), server)
        async with self._one_by_one:
            if not await self._keep(sent.thread, view):
                return
            if sent.type == PROGRESS:
                await self._advance(sent, call, open_calls)
        if self._live is not None:
            self._live.publish(sent.thread, LiveEvent("view", view.content or "{}", name=view.type))

    async def _keep(self, thread: str, view: View) -> bool:
        space = views_space(thread)
        kept = await self._side.get(space, view.type)
        before = _read(kept) if kept is not None else View(view.type)
        if before.server and view.server and before.server != view.server:
            before = msgspec.structs.replace(before, seq=0)
        if view.seq and view.seq <= before.seq:
            return False
        if kept is None and not (view.content or view.seq):
            return False
        if kept is None or (view.content and not before.content):
            await self._make_sure_of_room(space, view, known=kept is not None)
        view = msgspec.structs.replace(view, seq=view.seq or before.seq, server=view.server or before.server)
        await self._side.put(space, view.type, msgspec.msgpack.encode(view))
        return True

    async def _make_sure_of_room(self, space: str, view: View, *, known: bool) -> None:
        others = [_read(value) for value in (await self._side.entries(space)).values()]
        shown = sum(1 for other in others if other.content)
        if (view.content and shown >= VIEWS_KEPT) or (not known and len(others) >= CLEARED_KEPT):
            raise Unshown(400, f"A thread may show {VIEWS_KEPT} types of views; clear one with {{}}.")

    async def _advance(self, sent: protocol.View, call: str, open_calls: Collection[str]) -> None:
        """Keep how far a call has come, beside that of the thread's other open calls."""
        if sent.content.get("tool_call_id", call) != call:
            return
        kept = await self._side.get(PROGRESS_SPACE, sent.thread)
        known = decode_kept(kept, dict[str, Progress], "progress") if kept else {}
        now = {id: one for id, one in known.items() if id in open_calls and id != call}
        if call in open_calls and sent.content and sent.content.get("done") is not True:
            told = _progress_of(sent.content.get("fraction"), sent.content.get("message"))
            now[call] = msgspec.structs.replace(told, at=self._clock.now())
        if now != known:
            await self._side.put(PROGRESS_SPACE, sent.thread, msgspec.msgpack.encode(now))


def _read(body: bytes) -> View:
    return decode_kept(body, View, "view")


def _progress_of(fraction: object, message: object) -> Progress:
    told = isinstance(fraction, int | float) and not isinstance(fraction, bool)
    usable = told and 0 <= fraction <= 1  # type: ignore[operator]
    words = " ".join(message.split())[:MESSAGE_KEPT] if isinstance(message, str) else ""
    shown = "".join(character for character in words if character.isprintable())
    return Progress(float(fraction) if usable else -1.0, shown)  # type: ignore[arg-type]
