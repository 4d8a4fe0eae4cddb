"""The tools that MCP clients are offered: names, descriptions, and the shapes of their arguments."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from torpor.core.definition import ToolSpec
from torpor.mcp.limits import LISTED_MOST, WAIT, WAIT_MOST
from torpor.mcp.names import stems
from torpor.mcp.outcomes import Outcome, schema

LISTED = 20

Thread = Annotated[str, Meta(description="The thread's id, as `start` gave it.")]
Seconds = Annotated[
    float,
    Meta(ge=0, le=WAIT_MOST, description="Seconds to wait for the reply; then `working` is said."),
]
Key = Annotated[str, Meta(description="The same key with the same words counts once: for repeats.")]


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings shared by the arguments of all tools."""


class Start(Arguments, frozen=True):
    """Of ``AGENT_start``."""

    text: Annotated[str, Meta(description="What to say first.")]
    wait: Seconds = WAIT
    key: Key = ""


class Ask(Arguments, frozen=True):
    """Of ``AGENT_ask``."""

    thread: Thread
    text: Annotated[str, Meta(description="What to say.")]
    wait: Seconds = WAIT
    mode: Annotated[
        str,
        Meta(description="steer: answered now; queue: after what it does now; interrupt: instead of it."),
    ] = "steer"
    key: Key = ""


AFTER = "From 0 on: wait for what comes after this position, instead of the reply to the last words."


class Wait(Arguments, frozen=True):
    """Of ``AGENT_wait`` and ``wait``."""

    thread: Thread
    wait: Seconds = WAIT
    after: Annotated[int, Meta(ge=-1, description=AFTER)] = -1


class Answer(Arguments, frozen=True):
    """Of ``answer``."""

    wait: Annotated[str, Meta(description="The wait's id.")]
    value: Annotated[
        Any,
        Meta(
            description="A choice: its text. An approval: approve or deny. An authorization: done or "
            "dismiss. A form: an object."
        ),
    ]
    comment: Annotated[str, Meta(description="Told to the agent, with an approval or denial.")] = ""


class Listing(Arguments, frozen=True):
    """Of ``threads``."""

    agent: Annotated[str, Meta(description="Only threads of this agent.")] = ""
    limit: Annotated[int, Meta(ge=1, le=LISTED_MOST)] = LISTED


class One(Arguments, frozen=True):
    """Of ``stop``."""

    thread: Thread


class Answered(msgspec.Struct, frozen=True):
    """What became of an answer: ``received``, or how the wait had ended before."""

    wait: str
    outcome: str


class Listed(msgspec.Struct, frozen=True):
    """A thread in a list. ``state``: ``open``, ``parked``, ``stopped`` or ``closed``."""

    thread: str
    agent: str
    state: str
    title: str
    updated: str
    waits: int


class ThreadList(msgspec.Struct, frozen=True):
    """Threads, the one last changed first."""

    threads: list[Listed]


class Offer(msgspec.Struct, frozen=True):
    """One tool. ``verb`` says what it does; ``target``: for which agent, or which tool of a RAP server."""

    name: str
    verb: str
    description: str
    takes: dict[str, Any]
    gives: dict[str, Any] | None = None
    target: str = ""
    reads_only: bool = False
    destroys: bool = False
    repeatable: bool = False

    @property
    def may_be_long(self) -> bool:
        """It may run as a task."""
        return self.verb in ("start", "ask", "wait", "call")


LASTS = (
    "The thread is durable: it goes on when this call is cancelled or the connection ends, and can be waited "
    "for again by its id."
)


def of_agents(agents: Sequence[str]) -> list[Offer]:
    """The three tools of each agent."""
    gives = schema(Outcome)
    found = []
    for agent, stem in stems(agents).items():
        told = (
            (
                "start",
                Start,
                f"Start a thread of the agent {agent!r} with some words, and wait for its reply. {LASTS}",
            ),
            ("ask", Ask, f"Say more to a thread of the agent {agent!r}, and wait for its reply. {LASTS}"),
            (
                "wait",
                Wait,
                f"Wait on for a thread of the agent {agent!r}: gives its last reply, or `working` after so "
                "many seconds. Call it again then.",
            ),
        )
        found += [
            Offer(
                f"{stem}_{verb}", verb, text, schema(kind), gives, agent,
                reads_only=verb == "wait", repeatable=verb == "wait",
            )
            for verb, kind, text in told
        ]  # fmt: skip
    return found


def shared(*, answers: bool, calls: bool) -> list[Offer]:
    """The tools that belong to no agent."""
    text = "List the threads that can be addressed, the one last changed first."
    found = [
        Offer(
            "threads", "threads", text, schema(Listing), schema(ThreadList), reads_only=True, repeatable=True
        )
    ]
    if calls:
        text = (
            "Wait on for a call that was still working: gives its result, or `working` after so many "
            "seconds. With `after`, the next event of what the call has subscribed to."
        )
        found.append(Offer("wait", "await", text, schema(Wait), reads_only=True, repeatable=True))
    if answers:
        text = (
            "Answer what a thread asks a person (a choice, an approval, an authorization, a form), by the "
            "wait's id. Ask your user first: the answer counts as a person's. Then wait for the thread."
        )
        found.append(Offer("answer", "answer", text, schema(Answer), schema(Answered)))
    text = "Stop a thread: what it does is cut, its calls are cancelled. More words let it go on."
    found.append(Offer("stop", "stop", text, schema(One), schema(Outcome), destroys=True, repeatable=True))
    return found


def of_tools(tools: Sequence[ToolSpec], taken: frozenset[str]) -> list[Offer]:
    """The tools of RAP servers under their own names; ``rap_`` before one that is taken."""
    return [
        Offer(
            f"rap_{spec.name}" if spec.name in taken else spec.name,
            "call",
            spec.description,
            {"type": "object", **spec.schema},
            target=spec.name,
            destroys=spec.destructive,
            repeatable=spec.repeat in ("safe", "keyed"),
        )
        for spec in tools
    ]
