"""Waiting for a reply, with what happens meanwhile on the screen."""

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING

from rich.text import Text

from torpor.cli.screen import err, line
from torpor.cli.visible import one_line, visible
from torpor.core.messages import Call, Closed, Noted, Parked, Queued, Result, Said, Stopped, Turn, text_of
from torpor.ports import LiveEvent
from torpor.runtime.replies import Entry

if TYPE_CHECKING:
    from torpor.cli.desk import Desk

LOOK = 2.0
"""Seconds of silence after which the thread is asked what it waits for."""


class Watch:
    """Follows one thread until the exchange of a signal ends."""

    def __init__(self, signal: str) -> None:
        self._signal = signal
        self._err = err()
        self._live = sys.stdout.isatty()
        self._streamed = ""
        self._told = ""
        self._found = 0
        self._there = False
        """The words have been read, or are kept for the end of the exchange."""
        self.code = 1

    def take(self, item: Entry | LiveEvent) -> bool:
        """Show what came; says whether it was the end."""
        if isinstance(item, LiveEvent):
            self._show_live(item)
            return False
        return self._message(item)

    def waits_for(self, text: str) -> None:
        """Say what the thread waits for, once per change."""
        text = text.partition(" (for ")[0] or text
        if text != self._told:
            self._told = text
            self._err.print(line((f"… {text}", "dim")))

    def _message(self, entry: Entry) -> bool:
        match entry.message:
            case Said(signal=signal) if signal == self._signal:
                self._found = entry.position
                self._there = True
            case Noted(note=Queued(signal=signal)) if signal == self._signal:
                self._there = True
            case Turn() as turn:
                return self._turn(turn)
            case Result(is_error=failed, parts=parts):
                self._progress("✗" if failed else "←", one_line(text_of(parts), 100))
            case Noted(note=Parked(reason=reason)):
                return self._ended(line(("set aside: ", "bold red"), reason))
            case Noted(note=Stopped()):
                return self._ended(line("the thread was stopped"))
            case Noted(note=Closed()):
                self._there = True  # nothing is read any more
                return self._ended(line("the thread was closed"))
            case _:
                pass
        return False

    def _ended(self, why: Text) -> bool:
        """Say why no answer will come; what ended an exchange before these words is not about them."""
        if self._there:
            self._err.print(why)
        return self._there

    def _turn(self, turn: Turn) -> bool:
        text = text_of(turn.parts)
        ends = bool(turn.end and self._found and turn.upto >= self._found)
        if self._streamed:
            sys.stdout.write("\n")
        if (self._live or ends) and text != self._streamed:
            sys.stdout.write(visible(text) + "\n")
        sys.stdout.flush()
        self._streamed = ""
        for part in turn.parts:
            if isinstance(part, Call):
                self._progress("→", f"{part.name} {one_line(part.arguments, 100)}")
        self.code = 0 if ends else 1
        return ends

    def _show_live(self, event: LiveEvent) -> None:
        if not self._live:
            return
        if event.kind == "text":
            self._streamed += event.text
            sys.stdout.write(visible(event.text))
            sys.stdout.flush()
        elif event.kind in ("started", "dropped") and self._streamed:
            sys.stdout.write("\n")
            self._streamed = ""

    def _progress(self, sign: str, text: str) -> None:
        self._err.print(line((f"{sign} {text}", "dim")))


async def wait_for_reply(desk: "Desk", thread: str, signal: str, after: int, timeout: float | None) -> int:
    """Follow a thread until it has answered; gives the exit code."""
    watch = Watch(signal)
    items = desk.watch(thread, after)
    coming = asyncio.ensure_future(anext(items))
    try:
        async with asyncio.timeout(timeout):
            while True:
                done, _ = await asyncio.wait([coming], timeout=LOOK)
                if not done:
                    watch.waits_for((await desk.get(thread)).explanation.text)
                elif watch.take(coming.result()):
                    return watch.code
                else:
                    coming = asyncio.ensure_future(anext(items))
    except TimeoutError:
        err().print(line(("no reply yet. ", "bold"), (await desk.get(thread)).explanation.text))
        return 1
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        with contextlib.suppress(AttributeError):
            await items.aclose()  # type: ignore[attr-defined]
