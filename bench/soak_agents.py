"""The agents of a soak: between them they use all that a thread can do, and models fail in every way."""

import asyncio
import random
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from torpor import Agent, Limits, McpServer, RapServer, ToolContext, tool
from torpor.core.chunks import AnyChunk
from torpor.core.definition import Approvals, Events
from torpor.core.errors import Broken, ModelRefused, TorporError, Unavailable
from torpor.core.request import Attempt, Request, item_text
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Script, used

Effect = Callable[[str, str, str], None]
"""Is told what kind of effect happened in the world, of which thread and call."""

FAILING = 0.08
"""Share of completions that fail at first."""
PARKING = 0.5
"""Share of completions of the unlucky agent that park it."""
WINDOW = 4_000
_PART = re.compile(r"made for (event)s of a subscription|it writes the (summary)|\bas (\w+):")
_HERE = re.compile(r"inside the (?:new |temporary )*thread ([\w-]+)")


class Played:
    """Plays each thread of a tree by the script of its part; fails now and then, before or amid a reply."""

    def __init__(self, *, failing: float = FAILING, parking: float = 0.0, **parts: Script) -> None:
        self.name = "scripted:soak"
        self.window = 0
        self._failing, self._parking = failing, parking
        self._models = {part: ScriptedModel(script, remember=1) for part, script in parts.items()}

    async def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        """The ``Model`` port."""
        if random.random() < self._parking:
            raise parking()
        breaks = random.random() < self._failing
        if breaks and random.random() < 0.5:
            raise passing()
        await asyncio.sleep(0.02)
        async for chunk in self._models[_part(request)].stream(request, attempt):
            yield chunk
            if breaks:
                raise passing()


def passing() -> TorporError:
    """A failure that passes by itself."""
    return random.choice(
        [
            Unavailable("the model is busy"),
            Unavailable("too many requests", retry_after=0.5),
            Unavailable("the connection was lost"),
        ]
    )


def parking() -> Exception:
    """A failure that no repetition cures."""
    kinds = ("quota", "auth", "setup", "context", "content", "request")
    kind = random.choice((*kinds, "broken", "bug"))
    if kind == "broken":
        return Broken("the reply makes no sense")
    return RuntimeError("a fault of the adapter") if kind == "bug" else ModelRefused(kind, kind=kind)


def _part(request: Request) -> str:
    found = _PART.findall(shown(request))
    return "".join(found[-1]) if found else "root"


def shown(request: Request) -> str:
    """All words that a request shows."""
    return "\n".join(item_text(item) for item in request.items)


def _spawn(instructions: str) -> Any:
    return call("spawn_thread", instructions=instructions, child_of=["root"])


def _closes(report: str) -> Callable[[Request], Any]:
    def reply(request: Request) -> Any:
        here = str(_HERE.findall(shown(request))[-1])
        return call("close_thread", thread_id=here, report_to_parent=report)

    return reply


def _ends(words: str = "Noted.") -> list[Any]:
    return [say(words)] * 100


def _told(request: Request) -> Any:
    size = len(shown(request)) // 4
    return [say("I have read it. " * 30), used(input=size, output=120)]


def functions(effect: Effect) -> dict[str, Any]:
    """The functions, by name."""

    @tool(repeat="keyed")
    async def book(what: str, context: ToolContext) -> str:
        """Book something, once for each key."""
        await asyncio.sleep(0.2)
        effect("book", context.thread, context.call)
        return f"booked {what}"

    @tool
    async def mail(to: str, context: ToolContext) -> str:
        """Send a mail, which nobody can take back."""
        effect("mail", context.thread, context.call)
        await asyncio.sleep(0.1)
        return f"mailed {to}"

    @tool(repeat="safe", inline=True)
    def peek(what: str) -> str:
        """Look at something."""
        return f"saw {what}"

    @tool(repeat="safe")
    def pack(what: str, context: ToolContext) -> str:
        """Pack something, in a thread of its own."""
        effect("pack", context.thread, context.call)
        return f"packed {what} " * 200

    @tool(repeat="keyed", needs_approval=True)
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay an amount."""
        effect("pay", context.thread, context.call)
        return f"paid {amount}"

    return {one.name: one for one in (book, mail, peek, pack, pay)}


def agents(steady: str, frail: str, effect: Effect) -> list[Agent]:
    """All agents. ``steady``, ``frail``: tool servers, of which one is killed and stopped now and then."""
    own = functions(effect)
    lasting = RapServer(steady)
    counting = McpServer("abacus", command=[sys.executable, str(Path(__file__).with_name("soak_mcp.py"))])
    errands = [
        call("weigh", what="a"),
        call("lift", what="b"),
        call("book", what="c"),
        call("peek", what="d"),
    ]
    return [
        Agent(
            "porter",
            model=Played(root=[errands, [call("mail", to="e"), call("pack", what="f")], *_ends()]),
            tools=[own["book"], own["peek"], own["mail"], own["pack"], lasting, RapServer(frail)],
            limits=Limits(parallel=3),
        ),
        Agent(
            "asker",
            model=Played(root=[[call("ask", what="a"), call("pay", amount=7)], *_ends()]),
            tools=[own["pay"], lasting],
            approvals=Approvals(seconds=20.0),
        ),
        Agent(
            "napper",
            model=Played(
                root=[call("sleep", seconds=2), say("Awake."), call("sleep", seconds=900), *_ends("Woken.")]
            ),
        ),
        Agent("parent", model=_parent(), tools=[own["book"], lasting]),
        Agent(
            "watcher",
            model=Played(root=[call("watch", times=4), *_ends()], event=_ends("Seen.")),
            tools=[lasting],
            events=Events(window=0.3, most=3),
        ),
        Agent("talker", model=Played(root=_told, summary=_ends("They talked.")), window=WINDOW),
        Agent("hasty", model=Played(root=[call("linger", what="a"), *_ends("Stopped.")]), tools=[lasting]),
        Agent("unlucky", model=Played(parking=PARKING, root=_ends("At last."))),
        Agent("counter", model=Played(root=[[call("add", a=1, b=2)] * 2, *_ends()]), tools=[counting]),
    ]


def _parent() -> Played:
    return Played(
        root=[[_spawn("as kid: the first"), _spawn("as kid: the second")], *_ends()],
        kid=[[call("weigh", what="x"), call("book", what="y")], _closes("done")],
    )
