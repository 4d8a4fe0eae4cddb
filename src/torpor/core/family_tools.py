"""The tools by which a model makes threads and speaks to them: decided by the core, for every agent."""

from collections.abc import Callable
from typing import Any

from torpor.core.calls import note
from torpor.core.decisions import Settle, error
from torpor.core.effects import Post
from torpor.core.family import tell_parent
from torpor.core.messages import Addressed, By, Informed, Text
from torpor.core.request import Tool
from torpor.core.signals import Told
from torpor.core.spawning import SPAWN, allowance, child_id, lineage, share, spawn
from torpor.core.step import Step
from torpor.core.wall_time import SHOWN

LISTED = 20
"""Ids that an error lists."""

TITLE = 80
"""Characters of a child's instructions that are its title at first."""

ROOT = "root"
"""Stands for the id of a root, which its model does not know."""


def _spawn_thread(step: Step, call: str, arguments: dict[str, Any]) -> Settle:
    instructions = arguments["instructions"]
    refusal = _misplaced(step, arguments["child_of"]) or _refusal(step)
    if not instructions.strip():
        refusal = "the instructions are empty."
    if refusal:
        return error(refusal)
    child, fresh = child_id(call), arguments.get("fresh_context", False)
    opened = step.head.pending[call]
    spawn(
        step,
        child,
        call=call,
        name=SPAWN,
        arguments=opened.arguments,
        parts=(Text(instructions),),
        lineage=() if fresh else lineage(step.thread, step.head, step.head.turned),
        quota=share(step, 8),
        title=" ".join(instructions.split())[:TITLE],
    )
    return Settle(
        f"The child thread {child} has been made and works on this by itself. What it reports comes as news; "
        "do not do its task here. Go on with what is left to do in this thread, or wait for its report."
    )


def _misplaced(step: Step, given: list[str]) -> str:
    """What is wrong with the stack that the model gave: it may take itself for another thread."""
    stack = [*step.head.ancestors, step.thread]
    known = [stack[0] if place == 0 and id == ROOT else id for place, id in enumerate(given)]
    if known == stack:
        return ""
    shown = ", ".join(repr(id[:SHOWN]) for id in given[:LISTED])
    told = [ROOT, *stack[1:]]
    return (
        f"nothing was spawned. child_of was [{shown}], but this is the thread {step.thread}, and the threads "
        f"from the root to here are {told}. If you meant to hand on the task that this thread was made for: "
        "it is yours, so do it yourself. To make a child of this thread, give that list."
    )


def _refusal(step: Step) -> str:
    """Why this thread cannot have one more child."""
    head, limits = step.head, step.definition.limits
    if len(head.ancestors) >= limits.depth:
        return f"threads may stand at most {limits.depth} below a root, and this one does. Do it yourself."
    living = sum(child.purpose == "child" and child.state == "open" for child in head.children.values())
    if living >= limits.children:
        return f"{living} child threads work already, as many as may. Wait until one of them is done."
    if allowance(step) < 1:
        return "as many threads live below this one as may. Wait until some are closed, or do it yourself."
    return ""


def _report_to_parent(step: Step, call: str, arguments: dict[str, Any]) -> Settle:
    if not step.head.parent:
        return error("this is the root thread: there is no parent. Whatever you write is shown to people.")
    report = arguments["report"]
    if not report.strip():
        return error("the report is empty.")
    tell_parent(step, "report", f"{call}/report", (Text(report),), back=True)
    note(step, Informed("report"))
    return Settle(f"The report goes to the thread {step.head.parent}.")


def _close_thread(step: Step, _: str, arguments: dict[str, Any]) -> Settle:
    """Closing itself waits for the end of the slice, so that no call is left without a result."""
    id, report = arguments["thread_id"], arguments.get("report_to_parent", "")
    if not step.head.parent:
        return error("this is the root thread, which only people close.")
    if id != step.thread:
        return error(
            f"a thread closes itself only: this is the thread {step.thread}, not {id[:SHOWN]!r}. "
            "Nothing was closed."
        )
    if step.woken_by:
        return error(f"not closed: there is {step.woken_by}. Look at it first.")
    step.closing = report
    return Settle("This thread is closed when this turn is done.")


def _send_message_to_child(step: Step, call: str, arguments: dict[str, Any]) -> Settle:
    id, message = arguments["thread_id"], arguments["message"]
    child = step.head.children.get(id)
    if child is None:
        known = ", ".join(list(step.head.children)[:LISTED]) or "none"
        return error(f"{id[:SHOWN]!r} is not a living child of this thread. Living: {known}.")
    if not message.strip():
        return error("the message is empty.")
    if child.quota + 1 - child.places > allowance(step):
        return error("as many threads work below this one as may. Wait until some have come to an end.")
    by = By("thread", step.thread, "store")
    told = Told(
        id, f"{call}/told", step.now, by, trace=step.trace, sender=step.thread, parts=(Text(message),)
    )
    step.effects.append(Post(f"{call}/told", told, back=True))
    note(step, Addressed(id))
    return Settle(f"The message goes to the thread {id}. What it answers comes as news.")


ACTS: dict[str, Callable[[Step, str, dict[str, Any]], Settle]] = {
    SPAWN: _spawn_thread,
    "report_to_parent": _report_to_parent,
    "close_thread": _close_thread,
    "send_message_to_child": _send_message_to_child,
}

FOR_PARENTS = frozenset({SPAWN, "send_message_to_child"})
"""Only of use to agents that may have children."""


def _schema(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    properties = {**required, **(optional or {})}
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


TOOLS: tuple[Tool, ...] = (
    Tool(
        SPAWN,
        "Make a child thread that works on something by itself, side by side with this one. It knows all "
        "that this thread knows so far. Its report comes as news.",
        _schema(
            {
                "instructions": _text("What it shall do, and what this thread does meanwhile."),
                "child_of": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": 'Ids of the threads from the root to this one; in the root ["root"].',
                },
            },
            {
                "fresh_context": {
                    "type": "boolean",
                    "description": "It starts without this thread's history: cheaper; say all it must know.",
                }
            },
        ),
    ),
    Tool(
        "report_to_parent",
        "Tell the parent thread something: what came of the work, or how far it is.",
        _schema({"report": _text("What the parent is told.")}),
    ),
    Tool(
        "close_thread",
        "End this child thread for good, with all its calls, subscriptions and children.",
        _schema(
            {"thread_id": _text("The id of this thread itself.")},
            {"report_to_parent": _text("What the parent is told last.")},
        ),
    ),
    Tool(
        "send_message_to_child",
        "Say something to a child thread of this one, which lets it go on.",
        _schema({"thread_id": _text("The child's id."), "message": _text("What it is told.")}),
    ),
)
