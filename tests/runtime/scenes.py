"""Conversations in which everything happens that may, to be played undisturbed and with deaths."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.runtime.world import (
    SERVER,
    Input,
    World,
    after,
    finishes,
    happens,
    nudges,
    says,
    stops,
)
from torpor import Agent, Limits, RapServer, ToolContext, tool
from torpor.core.errors import ModelRefused, Unavailable
from torpor.core.messages import Result, text_of
from torpor.core.request import item_text
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Script, fail, tries


class Effects:
    """What functions did to the world."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.keys: list[str] = []
        """Idempotency keys under which something was paid, each once."""

    def pay(self, amount: int, context: ToolContext) -> str:
        self.runs.append(f"pay {amount}")
        if context.idempotency_key not in self.keys:
            self.keys.append(context.idempotency_key)
        return f"paid {amount}"


@dataclass
class Scene:
    """A script, what comes from outside and when, and how the agent is made."""

    script: Callable[[], Script]
    inputs: Callable[[], Sequence[Input]] = list
    answers: dict[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    wake: str = "all"
    unordered: bool = False
    """Results may come in another order where a process dies."""
    about: Callable[[World], object] = lambda world: None
    """What else must hold of the undisturbed run."""

    def agents(self, effects: Effects) -> Callable[[], list[Agent]]:
        tools: list[Any] = [*_functions(effects), RapServer(SERVER)]

        def made() -> list[Agent]:
            model = ScriptedModel(self.script())
            return [Agent("worker", model=model, tools=tools, limits=self.limits, wake=self.wake)]

        return made


def _functions(effects: Effects) -> list[Any]:
    @tool(repeat="safe")
    async def look(what: str) -> str:
        """Look at something."""
        effects.runs.append(f"look {what}")
        return f"saw {what}"

    @tool(repeat="keyed")
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay, once per key."""
        return effects.pay(amount, context)

    @tool
    async def mail(to: str) -> str:
        """Send a mail, which nobody can take back."""
        effects.runs.append(f"mail {to}")
        return f"sent to {to}"

    @tool(repeat="safe", inline=True)
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool(repeat="safe")
    async def boom() -> str:
        """Fail."""
        raise ValueError("no")

    return [look, pay, mail, add, boom]


def _recount(request: Any) -> Any:
    return say(" and ".join(result.text for result in request.results) or request.text)


def _refused_until(words: str, error: ModelRefused) -> Any:
    def reply(request: Any) -> Any:
        news = [item_text(item) for item in request.since_turn]
        return say("Better.") if any(words in text for text in news) else fail(error)

    return reply


def _four_calls() -> list[Any]:
    return [call("pay", amount=amount) for amount in range(1, 5)]


def _held_order(world: World) -> None:
    assert world.notes.count("Sent") >= 1


def _cancelled(world: World) -> None:
    assert len(world.tools.cancelled) == 1


def _both_cancelled(world: World) -> None:
    assert len(world.tools.cancelled) == 2


def _event_after_results(world: World) -> None:
    """The model sees the results first, in call order, and then the event that came before them."""
    kinds = [type(item).__name__ for item in world.asked[1].request.since_turn]
    assert kinds == ["ResultsItem", "InjectedItem"]


def _no_trace_of_the_duplicate(world: World) -> None:
    results = [message for message in world.messages if isinstance(message, Result)]
    assert [text_of(result.parts) for result in results] == ["watching", "checked", "edited"]
    assert [item_text(item) for item in world.asked[3].request.since_turn] == ["edited", "the build failed"]


def _waited(world: World) -> None:
    """The provider's 37 seconds, and one request for each try."""
    first, second, third = world.asked
    assert second.at - first.at >= 37.0
    assert first.request.text == second.request.text == third.request.text
    assert len(first.request.items) == len(third.request.items)
    assert [one.attempt.attempt for one in world.asked] == [0, 1, 2]


def _once(world: World) -> None:
    assert len(world.asked) == world.turns + 1


SCENES: dict[str, Scene] = {
    "functions": Scene(
        lambda: [
            [say("I look and pay."), call("look", what="a"), call("pay", amount=10), call("nothing")],
            call("sleep", seconds=30),
            [call("look", what="b"), call("look", what="c")],
            _recount,
        ]
    ),
    "tool server": Scene(
        lambda: [[call("build", what="x"), call("check", what="y"), call("pay", amount=3)], _recount],
        lambda: [Input(after(1, invoked="build"), finishes("build", "built"))],
        answers={"check": "checked"},
        unordered=True,
    ),
    "subscription": Scene(
        lambda: [
            call("watch", what="x"),
            say("I watch."),
            say("One came."),
            say("The last came."),
            say("Yes."),
        ],
        lambda: [
            Input(after(1, invoked="watch"), finishes("watch", "watching", subscription=True)),
            Input(after(2), happens("watch", "e1", "it moved")),
            Input(after(3), happens("watch", "e2", "it is gone", final=True)),
            Input(after(4), says("Are you done?")),
        ],
    ),
    "steer": Scene(
        lambda: [call("build", what="x"), say("It is still being built."), say("It is built.")],
        lambda: [
            Input(after(1), says("How far is it?")),
            Input(after(2, invoked="build"), finishes("build", "built")),
        ],
    ),
    "queue": Scene(
        lambda: [call("build", what="x"), say("Built."), say("And now that.")],
        lambda: [
            Input(after(1), says("Then do that.", "queue")),
            Input(after(1, note="Queued", invoked="build"), finishes("build", "built")),
        ],
    ),
    "interrupt": Scene(
        lambda: [[call("build", what="x"), call("build", what="y")], say("Stopped. What now?")],
        lambda: [Input(after(1, invoked="build"), says("Leave that.", "interrupt"))],
        about=_both_cancelled,
    ),
    "stop and nudge": Scene(
        lambda: [[say("I begin."), call("build", what="x")], say("I go on."), say("Fine.")],
        lambda: [
            Input(after(1, invoked="build"), stops),
            Input(after(note="Stopped"), nudges),
            Input(after(2), says("Good.")),
        ],
        about=_cancelled,
    ),
    "wake at each": Scene(
        lambda: [[call("build", what="x"), call("watch", what="y")], say("x is there."), say("y as well.")],
        lambda: [
            Input(after(1, invoked="watch"), finishes("build", "built x")),
            Input(after(2), finishes("watch", "saw y")),
        ],
        wake="each",
    ),
    "one at a time": Scene(lambda: [_four_calls(), _recount], limits=Limits(parallel=1), about=_held_order),
    "two at a time": Scene(
        lambda: [_four_calls(), _recount],
        limits=Limits(parallel=2),
        unordered=True,
        about=_held_order,
    ),
    "inline": Scene(
        lambda: [[call("add", a=1, b=2), call("pay", amount=1)], call("add", a=3, b=4), _recount]
    ),
    "busy model": Scene(
        lambda: [
            tries(
                fail(Unavailable("busy", retry_after=37)),
                [say("half"), fail(Unavailable("the stream died"))],
                say("There."),
            )
        ],
        about=_waited,
    ),
    "busy model, and a tool": Scene(
        lambda: [
            [call("pay", amount=1)],
            tries(fail(Unavailable("503")), fail(Unavailable("429", retry_after=3)), _recount),
        ],
    ),
    "limit": Scene(
        lambda: [call("pay", amount=1), call("pay", amount=2), say("Done.")],
        lambda: [Input(after(note="Parked"), says("Go on."))],
        limits=Limits(completions=2),
    ),
    "refusal": Scene(
        lambda: [_refused_until("Something else", ModelRefused("no such thing", kind="content"))],
        lambda: [Input(after(note="Parked"), says("Something else, then."))],
        about=_once,
    ),
    "quota": Scene(
        lambda: [call("pay", amount=1), _refused_until("Paid.", ModelRefused("no money", kind="quota"))],
        lambda: [Input(after(note="Parked"), says("Paid."))],
        about=_once,
    ),
    "asleep until news": Scene(
        lambda: [
            call("watch", what="x"),
            call("sleep_until_event_or_input"),
            [say("News."), call("sleep", seconds=100)],
            say("Good night."),
        ],
        lambda: [
            Input(after(1, invoked="watch"), finishes("watch", "watching", subscription=True)),
            Input(after(2), happens("watch", "e1", "it moved", final=True)),
        ],
    ),
    "event before its confirmation": Scene(
        lambda: [[call("watch", what="x"), call("build", what="y")], say("Both."), say("Gone.")],
        lambda: [
            Input(after(1, invoked="watch"), happens("watch", "e1", "it moved")),
            Input(after(came="Happened"), finishes("watch", "watching", subscription=True)),
            Input(after(came="Result", invoked="build"), finishes("build", "built")),
            Input(after(2), happens("watch", "e2", "it is gone", final=True)),
        ],
        about=_event_after_results,
    ),
    "stale duplicate": Scene(
        lambda: [call("watch", what="x"), call("check", what="y"), call("build", what="z"), say("Done.")],
        lambda: [
            Input(after(1, invoked="watch"), finishes("watch", "watching", subscription=True)),
            Input(after(3, invoked="build"), happens("watch", "e1", "the build failed", final=True)),
            Input(after(3, invoked="build"), finishes("check", "checked")),
            Input(after(3, invoked="build"), finishes("build", "edited")),
        ],
        answers={"check": "checked"},
        about=_no_trace_of_the_duplicate,
    ),
    "a function that fails": Scene(
        lambda: [[call("pay", amount=1), call("pay", amount=2), call("boom")], _recount],
    ),
    "unsafe": Scene(lambda: [[call("mail", to="a"), call("look", what="b")], _recount]),
}
