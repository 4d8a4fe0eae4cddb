"""The model: it wants all sorts of things, by its own lot; it is busy, refuses, breaks off, or stalls."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from typing import Any

from torpor.core.chunks import AnyChunk, CallDelta, CallStart, ReasoningDelta, ReasoningDone, Stop, TextDelta
from torpor.core.errors import Broken, ModelRefused, Unavailable
from torpor.core.messages import Usage
from torpor.core.request import Attempt, Request, TurnItem, item_text
from torpor.testing.weather.record import Answer
from torpor.testing.weather.shown import check_items
from torpor.testing.weather.sky import Sky

TURNS = 5
"""After so many turns a thread says nothing but its last words."""
WINDOW = 5_000
FIXED = 2_000
"""Tokens: of a window, and of what is in every request. A token counts as four characters shown."""

WISHES = (
    "look", "pay", "mail", "boom", "add", "slow", "build", "check", "watch", "watch", "post", "pick", "sign",
    "wipe", "show", "spawn", "spawn", "report", "close", "tell", "sleep", "sleep", "doze", "wait", "title",
    "unsubscribe", "nothing", "talk", "talk", "read", "guarded",
    "until", "long", "long", "misplaced", "mute",
)  # fmt: skip
REFUSALS = ("quota", "auth", "setup", "context", "content", "request")

_STACK = re.compile(r"from the root to here: ([^.]*)\.")
_HERE = re.compile(r"inside the (?:new |temporary )*thread ([\w-]+)")
_CALLS = re.compile(r"\b(c[0-9a-f]{16}-\d+)\b")
_HANDLES = re.compile(r"handle[^\w]*([\w.-]{8,})")
_MADE = re.compile(r"The child thread ([\w-]+) has been made")


class Model:
    """The ``Model`` port of all agents."""

    name = "sim:model"

    def __init__(self, weather: Sky, window: int) -> None:
        self._weather = weather
        self.window = window

    async def stream(self, request: Request, attempt: Attempt) -> AsyncGenerator[AnyChunk, None]:
        """One completion, or one of the many ways in which there is none."""
        weather, faults = self._weather, self._weather.faults
        weather.trace("model", "asked", attempt.thread, attempt.ordinal, attempt.attempt, request.hash)
        check_items(request.items, weather.record)
        await asyncio.sleep(weather.random.random() * (8.0 if faults.strike("stream slow") else 0.5))
        self._refuse()
        answer, chunks = self._answer(request, attempt)
        cut = weather.random.randrange(len(chunks)) if faults.strike("stream cut") else -1
        for place, chunk in enumerate(chunks):
            if place == cut:
                raise Unavailable("The stream broke off.")
            if faults.strike("stream stalls"):
                await asyncio.sleep(30.0)
            if isinstance(chunk, Stop):
                answer.whole = True
            yield chunk

    def _refuse(self) -> None:
        faults = self._weather.faults
        if faults.strike("model busy"):
            raise Unavailable("The model is busy.")
        if faults.strike("model names a time"):
            raise Unavailable("The model is busy.", retry_after=self._weather.random.choice((1.0, 7.0, 40.0)))
        for kind in REFUSALS:
            if faults.strike(f"model refuses: {kind}"):
                raise ModelRefused(f"It refused: {kind}.", kind=kind)
        if faults.strike("model broken"):
            raise Broken("The model answered what cannot be read.")
        if faults.strike("model raises"):
            raise ValueError("A defect of the adapter.")

    def _answer(self, request: Request, attempt: Attempt) -> tuple[Answer, list[AnyChunk]]:
        weather = self._weather
        mark = f"answer {weather.number()}."
        text = f"{mark} "
        shown = "\n".join(item_text(item) for item in request.items)
        calls: list[tuple[str, str]] = []
        if "it writes the summary" in shown:
            text = f"{mark} In short: go on." if weather.random.random() < 0.8 else ""
        elif sum(isinstance(item, TurnItem) for item in request.items) <= self._turns():
            text, calls = self._wishes(shown, text)
        answer = Answer(attempt.thread, attempt.ordinal, mark, text, calls)
        weather.record.answers[mark] = answer
        weather.trace("model", "says", attempt.thread, attempt.ordinal, mark, [name for name, _ in calls])
        return answer, self._chunks(text, calls, len(shown))

    def _turns(self) -> int:
        return 1 if self._weather.faults.calm else TURNS

    def _wishes(self, shown: str, text: str) -> tuple[str, list[tuple[str, str]]]:
        random = self._weather.random
        calls = []
        for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
            wish = random.choice(WISHES)
            if wish == "talk":
                text += "words " * random.choice((1, 1, 1_500))
            else:
                calls.append(self._call(wish, shown))
        return text, calls

    def _call(self, wish: str, shown: str) -> tuple[str, str]:
        weather, random = self._weather, self._weather.random
        stack = (_STACK.findall(shown) or ["root"])[-1].split(", ")
        made, here = (_MADE.findall(shown) or ["none"])[-1], (_HERE.findall(shown) or ["root"])[-1]
        name, arguments = wish, {"what": f"n{weather.number()}"}
        if wish in BUILT:
            name, arguments = BUILT[wish](random, stack, made, here)
        elif wish in ("read", "unsubscribe", "wait"):
            name, arguments = self._about(wish, shown, made)
        told = json.dumps(arguments)
        if weather.faults.strike("arguments malformed"):
            told = random.choice(('{"what": ', "[]", "{}", ""))
        return name, told

    def _about(self, wish: str, shown: str, made: str) -> tuple[str, Any]:
        """A wish that needs to know what is there."""
        random = self._weather.random
        ids = [*_CALLS.findall(shown), made, "none"]
        handle = (_HANDLES.findall(shown) or ["none"])[-1]
        mode, seconds = random.choice(("any", "all")), random.choice((0.0, 5.0, 20.0))
        wait = {
            "ids": random.sample(ids, min(len(ids), random.choice((1, 2)))),
            "mode": mode,
            "seconds": seconds,
        }
        return {
            "read": ("read_result", {"handle": handle, "start": random.choice((0, 5, 10_000_000))}),
            "unsubscribe": ("cancel_subscription", {"tool_call_id": random.choice(ids)}),
            "wait": ("wait_for", wait),
        }[wish]

    def _chunks(self, text: str, calls: list[tuple[str, str]], size: int) -> list[AnyChunk]:
        chunks: list[AnyChunk] = []
        if self._weather.random.random() < 0.1:
            chunks += [ReasoningDelta("Well."), ReasoningDone("", "sim")]
        if text:
            chunks += [TextDelta(text[:9]), TextDelta(text[9:])] if len(text) > 9 else [TextDelta(text)]
        for index, (name, arguments) in enumerate(calls):
            chunks += [CallStart(index, name, f"p{index}"), CallDelta(index, arguments)]
        usage = Usage(input=size // 4 + FIXED, output=20)
        return [*chunks, Stop("calls" if calls else "end", usage, self.name)]


def _spawn(random: Any, stack: list[str], made: str, here: str) -> tuple[str, Any]:
    fresh = random.random() < 0.3
    return "spawn_thread", {"instructions": "do it", "child_of": stack, "fresh_context": fresh}


def _until(random: Any, stack: list[str], made: str, here: str) -> tuple[str, Any]:
    clock = random.choice(("01:46:50", "01:47", "01:46:00", "25:00"))
    zone = random.choice(({}, {"timezone": "UTC"}, {"timezone": "Europe/Berlin"}, {"timezone": "Nowhere"}))
    return "sleep_until", {"date": random.choice(("2001-09-09", "2001-09-08", "soon")), "time": clock, **zone}


def _sleep(random: Any, stack: list[str], made: str, here: str) -> tuple[str, Any]:
    return "sleep", {"seconds": random.choice((0, 1, 20))}


BUILT: dict[str, Any] = {
    "spawn": _spawn,
    "sleep": _sleep,
    "report": lambda random, stack, made, here: ("report_to_parent", {"report": f"r{random.random()}"}),
    "close": lambda random, stack, made, here: ("close_thread", {"thread_id": here}),
    "tell": lambda random, stack, made, here: (
        "send_message_to_child",
        {"thread_id": made, "message": "Go on."},
    ),
    "doze": lambda random, stack, made, here: ("sleep_until_event_or_input", {}),
    "title": lambda random, stack, made, here: ("set_title", {"title": "A title"}),
    "until": _until,
    "misplaced": lambda random, stack, made, here: (
        "spawn_thread",
        {"instructions": random.choice(("", "do it")), "child_of": random.choice((["none"], stack))},
    ),
    "mute": lambda random, stack, made, here: random.choice(
        (
            ("report_to_parent", {"report": " "}),
            ("set_title", {"title": " "}),
            ("close_thread", {"thread_id": "none"}),
            ("close_thread", {"thread_id": here, "report_to_parent": "r"}),
            ("send_message_to_child", {"thread_id": made, "message": " "}),
        )
    ),
}
"""Wishes for tools that the runtime itself decides."""
