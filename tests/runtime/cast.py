"""A model that plays every thread of a tree, each by the script of its part, and helps its calls along."""

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from torpor.core.chunks import AnyChunk
from torpor.core.request import Attempt, Request, item_text
from torpor.models import ScriptedModel, call
from torpor.models.scripted import Script

_PART = re.compile(r"made for (event)s of a subscription|it writes the (summary)|\bas (\w+):")
_HERE = re.compile(r"inside the (?:new |temporary )*thread ([\w-]+)")
_MADE = re.compile(r"The child thread ([\w-]+) has been made")


class Cast:
    """``parts``: the script of each part. A thread's part is said in its instructions, ``as NAME: …``.

    The root plays ``root``, a thread made for events ``event``, one that writes a summary ``summary``.
    ``played`` is shared by processes that play the same threads.
    """

    def __init__(self, played: dict[str, str] | None = None, **parts: Script) -> None:
        self.name = "scripted:cast"
        self.played: dict[str, str] = {} if played is None else played
        self.asked: list[tuple[str, Request]] = []
        """Every request with the part that was asked, in order."""
        self._models = {part: ScriptedModel(script) for part, script in parts.items()}

    def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        if attempt.thread not in self.played:
            self.played[attempt.thread] = _part_of(request)
        part = self.played[attempt.thread]
        self.asked.append((part, request))
        return self._models[part].stream(request, attempt)

    def thread(self, part: str) -> str:
        """The thread that plays a part."""
        return next(thread for thread, played in self.played.items() if played == part)

    def threads(self, part: str) -> list[str]:
        """All threads that play it."""
        return [thread for thread, played in self.played.items() if played == part]


def _part_of(request: Request) -> str:
    """By the last seed that is shown; whoever is shown none is the root."""
    found = _PART.findall(shown(request))
    return "".join(found[-1]) if found else "root"


def shown(request: Request) -> str:
    """All words that a request shows."""
    return "\n".join(item_text(item) for item in request.items)


def here(request: Request) -> str:
    """The child thread that is asked, as it was told."""
    return str(_HERE.findall(shown(request))[-1])


def spawns(instructions: str, *stack: str, **options: Any) -> Any:
    return call("spawn_thread", instructions=instructions, child_of=["root", *stack], **options)


def spawns_here(instructions: str, **options: Any) -> Callable[[Request], Any]:
    """A child spawns one of its own."""

    def reply(request: Request) -> Any:
        stack = re.findall(r"from the root to here: ([^.]*)\.", shown(request))[-1].split(", ")
        return call("spawn_thread", instructions=instructions, child_of=stack, **options)

    return reply


def closes(report: str = "") -> Callable[[Request], Any]:
    def reply(request: Request) -> Any:
        told = {"report_to_parent": report} if report else {}
        return call("close_thread", thread_id=here(request), **told)

    return reply


def tells(message: str, number: int = 0) -> Callable[[Request], Any]:
    """Speak to the child that was made as the so-manieth."""

    def reply(request: Request) -> Any:
        children = _MADE.findall(shown(request))
        return call("send_message_to_child", thread_id=children[number], message=message)

    return reply


def reports(text: str) -> Any:
    return call("report_to_parent", report=text)
