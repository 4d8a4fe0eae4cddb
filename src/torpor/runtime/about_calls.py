"""What tools are told of the calls they serve, and results of calls in the runtime's own words."""

from torpor.core.effects import Invoke
from torpor.core.messages import Text
from torpor.ports import Row
from torpor.runtime.roster import CallContext, Verdict


def context_of(row: Row, effect: Invoke, attempt: int, *, vanished: bool) -> CallContext:
    """What a tool is told of the call that it serves."""
    return CallContext(
        row.thread,
        effect.call,
        row.agent,
        row.user_id,
        row.context,
        attempt,
        name=effect.name,
        server=effect.server,
        root=row.root or row.thread,
        repeat=effect.repeat,
        at=effect.at,
        vanished=vanished,
        trace=effect.trace or row.trace,
    )


def unknown(effect: Invoke) -> Verdict:
    """Nobody can tell what became of a run."""
    text = (
        f"Error: {effect.name} was started and its outcome is unknown: it may or may not have taken effect. "
        "It was not run again."
    )
    return Verdict((Text(text),), cause="unknown")


def undelivered(effect: Invoke, why: str) -> Verdict:
    """A call did not reach its tool server."""
    text = f"Error: {effect.name} could not be handed to its tool server, so it did not run. {why}"
    return Verdict((Text(text),), cause="undelivered")
