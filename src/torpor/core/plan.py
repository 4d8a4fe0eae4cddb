"""Is a completion owed, and if not, why the slice yields. The only such predicate."""

import msgspec

from torpor.core.definition import Limits
from torpor.core.thread import Exchange, Head


class Complete(msgspec.Struct, frozen=True):
    """Ask the model."""


class Yield(msgspec.Struct, frozen=True):
    """Go back to sleep: ``idle``, ``waiting``, or the thread's state."""

    why: str


class Exceeded(msgspec.Struct, frozen=True):
    """A limit is passed: park with these words."""

    reason: str


def plan(head: Head, limits: Limits) -> Complete | Yield | Exceeded:
    """What the slice does next, from the head alone."""
    if head.state != "open":
        return Yield(head.state)
    if head.pending:
        return Yield("waiting")
    if head.blocked:
        return Yield("compacting")
    if not head.owes:
        return Yield("idle")
    passed = exceeded(head.exchange, limits)
    return Exceeded(passed) if passed else Complete()


def owes_now(head: Head) -> bool:
    """An answer is owed and nothing blocks it."""
    return head.state == "open" and head.owes and not (head.pending or head.blocked)


def exceeded(spent: Exchange, limits: Limits) -> str:
    """The limit that has been passed, in words; empty: none."""
    if (
        spent.completions < limits.completions
        and spent.loopbacks < limits.loopbacks
        and spent.tokens < limits.tokens
        and spent.seconds < limits.seconds - 0.1  # below is rounded
    ):
        return ""
    counts: tuple[tuple[str, float, float], ...] = (
        ("completions", spent.completions, limits.completions),
        ("completions in a row without any tool's answer", spent.loopbacks, limits.loopbacks),
        ("tokens", spent.tokens, limits.tokens),
        ("seconds in the model", round(spent.seconds, 1), limits.seconds),
    )
    for what, used, limit in counts:
        if used >= limit:
            return (
                f"This exchange used {used} {what}; the agent's limit is {limit}. "
                "Say something or nudge the thread to let it go on with a fresh allowance."
            )
    return ""
