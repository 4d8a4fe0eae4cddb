"""Compaction: when history is folded or summed up, by whom, and what becomes of the summary.

A summary stands for all up to a position that a turn has answered. It is written by a child of its own, which
continues the history up to there, so that its provider finds most of the request in its cache. The thread
goes on meanwhile, unless its provider has refused a request for its length.
"""

import msgspec

from torpor.core.calls import ABSORBED, SETTLED, note
from torpor.core.definition import Definition
from torpor.core.effects import Post
from torpor.core.facts import facts
from torpor.core.head import Compaction, Head
from torpor.core.items import Cut
from torpor.core.messages import By, Call, Compacting, Folded, Summary, Text, Uncompacted
from torpor.core.prompt import Projection
from torpor.core.signals import ClosedSignal, Compacted, Due
from torpor.core.spawning import bear, child_id, lineage
from torpor.core.step import Step
from torpor.core.thread import shortened

TRIES = 2
"""Compactions in a row that bring nothing before no more are begun."""
PATIENCE = 3_600.0
"""Seconds that a compaction child is given."""
BYTES = 4
"""Characters, or bytes, that count as one token where only an estimate is possible: about as in English."""
LEAST = 8
"""A summary must stand for at least this part of a request that its provider has refused."""
ARGUMENTS = 1_000
"""Characters of a call's arguments that are kept where a summary covers it."""
CALLS = 128
"""Calls without a result of their own that are remembered, besides those that may still get one."""
CLOSING = "close_thread"
"""The only call that a compaction child may make."""

TASK = """\
[All that stands above has become long. Write a summary of it that will stand in its place: the thread goes \
on with your summary and what came after, and cannot see what is above any more.
Keep what is needed to go on: what people asked for, in their own words where those matter, and their \
corrections and wishes; decisions and why; what has been done and with what result; exact names, ids, paths, \
numbers and handles; what is open, and what comes next. Leave out what is done with and has no bearing.
Do no work on the task itself, and call no tools. Your whole answer is the summary: begin at once.]"""

REFUSED = (
    "this thread only writes a summary, so no tool may be called here. Write the summary as plain text; it "
    "ends the thread."
)


def refuses(head: Head, call: str) -> bool:
    """Whether a call is not for this thread: it is there for a summary alone."""
    return head.purpose == "compaction" and call != CLOSING


def tokens(size: int) -> int:
    """About how many tokens a text of so many characters has, in English; more in most other languages."""
    return size // BYTES


# ------------------------------------------------------------------ begin


def is_due(head: Head, window: int) -> bool:
    """The model's window of so many tokens is nearly full, and something may be done about it."""
    full = bool(window) and head.window * 4 > window * 3
    return full and head.compaction is None and head.uncompacted <= TRIES and head.purpose != "compaction"


def make_room(step: Step, shown: Projection) -> None:
    """Before the model is asked, once ``is_due``: fold long results, or begin a summary, or say why not.

    ``shown`` is what the model would be asked.
    """
    head = step.head
    if _fold(step, shown, head.answered, 3):
        return
    fixed, left = fixed_size(step.definition), _cuts(head, shown)
    if fixed > 2 * shown.size:
        if not head.uncompacted:
            note(step, Uncompacted("", f"A summary would not help. {_too_big(step, shown, fixed)}"))
    elif head.uncompacted == TRIES:
        note(step, Uncompacted("", f"{head.uncompacted_why} {_too_big(step, shown, fixed)}"))
    elif left:
        begin(step, left[-1])


class Stuck(msgspec.Struct, frozen=True):
    """Nothing can be gained: why. ``aside``: what came last is perhaps what is too big."""

    reason: str
    aside: bool


def make_room_at_once(step: Step, shown: Projection) -> Stuck | None:
    """The provider has refused a request for its length: fold, or wait for a summary of most of it.

    None: the model may be asked again, then.
    """
    if step.head.compaction is not None:
        _block(step, step.head.compaction)
        return None
    seen, all_ = step.head.answered, step.head.length
    if _fold(step, shown, seen, 3) or _fold(step, shown, all_, 3):
        return None
    if step.head.measured:
        note(step, Uncompacted("", "The request was still too long with a summary."))
    fixed = fixed_size(step.definition)
    cut = _half(step.head, shown, fixed)
    if cut is not None and step.head.uncompacted < TRIES and step.head.purpose != "compaction":
        begin(step, cut, blocking=True, before=_refused(step.head, shown, fixed))
    elif not _fold(step, shown, all_, LEAST):
        told = f"Nothing can be left out of the request. {_too_big(step, shown, fixed)}"
        return Stuck(told, aside=not _is_fixed(step, shown, fixed))
    return None


def fixed_size(definition: Definition) -> int:
    """About how many bytes of each request are the agent's instructions and tools."""
    tools = [spec.shown() for spec in definition.tools.values()]
    return len(definition.instructions.encode()) + len(msgspec.json.encode(tools))


def _fold(step: Step, shown: Projection, upto: int, share: int) -> bool:
    """Show long results up to a position by their beginning, if that saves so big a share of the history."""
    saved = shown.saves(upto)
    if not saved or saved * share < shown.size:
        return False
    note(step, Folded(upto))
    return True


def _cuts(head: Head, shown: Projection) -> list[Cut]:
    return [cut for cut in shown.cuts if head.base < cut.position <= head.answered]


def _half(head: Head, shown: Projection, fixed: int) -> Cut | None:
    """The last cut within two thirds of the history, or within less after a failure, else the first one.

    Only one that covers enough of the request counts.
    """
    cuts = [cut for cut in _cuts(head, shown) if LEAST * cut.size > fixed + shown.size]
    within = [cut for cut in cuts if cut.size <= shown.size * 2 // 3 >> head.uncompacted]
    return within[-1] if within else next(iter(cuts), None)


def _refused(head: Head, shown: Projection, fixed: int) -> int:
    """About how many tokens a request has, by those of the last one; 0: nothing tells."""
    seen = [cut.size for cut in _cuts(head, shown)]
    return head.window * (fixed + shown.size) // (fixed + seen[-1]) if seen else 0


def _too_big(step: Step, shown: Projection, fixed: int) -> str:
    """Which part of a request leaves no room, in words."""
    last = _last(step, shown)
    of = f" of {step.definition.window}" if step.definition.window else ""
    if fixed >= last:
        return f"The agent's instructions and tools alone take about {tokens(fixed)}{of} tokens."
    return f"What came last takes about {tokens(last)}{of} tokens."


def _is_fixed(step: Step, shown: Projection, fixed: int) -> bool:
    """It is certainly the fixed part that leaves no room, and what came last is not to blame."""
    return 0 < step.definition.window < 2 * tokens(fixed) and fixed > _last(step, shown)


def _last(step: Step, shown: Projection) -> int:
    """Bytes of what no summary can stand for yet."""
    cuts = _cuts(step.head, shown)
    return shown.size - (cuts[-1].size if cuts else 0)


def begin(step: Step, cut: Cut, *, blocking: bool = False, before: int = 0) -> None:
    """Have all up to a cut summed up by a child."""
    child = child_id(step.thread, "compaction", step.head.length)
    note(step, Compacting(child, cut.position, blocking, _remembered(step, cut.calls), before))
    seen = lineage(step.thread, step.head, cut.position)
    bear(step, child, purpose="compaction", lineage=seen, title="Summary", parts=(Text(TASK),))
    due = step.now + PATIENCE
    step.timers.append(Due(step.thread, _timer(child), step.now, due=due, call=child, what="compaction"))


def _remembered(step: Step, calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """Calls that a summary covers and whose results may come after it; of those given up long ago, none."""
    older = [call for call in calls[:-CALLS] if step.open_call(call.id)]
    return tuple([_kept(call) for call in (*older, *calls[-CALLS:])])


def _kept(call: Call) -> Call:
    """A call as it is remembered for showing it with its result."""
    return Call(call.id, call.name, shortened(call.arguments, call.invalid, ARGUMENTS), index=call.index)


def _block(step: Step, begun: Compaction) -> None:
    """The model is not asked before the summary that is being written is there."""
    note(step, Compacting(begun.child, begun.upto, True, begun.calls, begun.before))


def _timer(child: str) -> str:
    return f"{child}/compaction"


# -------------------------------------------------------------------- end


def report(step: Step, text: str, reason: str = "") -> None:
    """This compaction child is done: its parent gets the summary or why there is none. Once."""
    id = f"{step.thread}/compacted"
    if any(effect.id == id for effect in step.effects):
        return
    signal = Compacted(
        step.head.parent,
        id,
        step.now,
        By("thread", step.thread, "store"),
        trace=step.trace,
        child=step.thread,
        text=text,
        reason=reason,
    )
    step.effects.append(Post(id, signal))


def compacted(step: Step, signal: Compacted) -> str:
    """A compaction child is done: its summary takes the place of what it covers, or none came of it."""
    begun = step.head.compaction
    if begun is None or begun.child != signal.child:
        return SETTLED
    step.drop_timer(_timer(begun.child))
    text = signal.text.strip()
    if not text:
        note(step, Uncompacted(begun.child, signal.reason or "It came to its end without a word."))
        return ABSORBED
    step.add(
        Summary(
            at=step.moment,
            upto=begun.upto,
            text=text,
            facts=facts(step.head),
            calls=begun.calls,
            before=begun.before or step.head.measured,
            signal=signal.id,
            by=signal.by,
            trace=signal.trace or step.trace,
        )
    )
    return ABSORBED


def overdue(step: Step, signal: Due) -> str:
    """A compaction child has not come to an end in time: it is closed, and counts as failed."""
    begun = step.head.compaction
    if begun is None or begun.child != signal.call:
        return SETTLED
    give_up(step)
    note(step, Uncompacted(begun.child, f"It was not done within {PATIENCE:.0f} seconds."))
    return ABSORBED


def give_up(step: Step) -> None:
    """Nobody waits for the summary that is being written, if there is one: its thread is closed."""
    begun = step.head.compaction
    if begun is None:
        return
    step.drop_timer(_timer(begun.child))
    by = By("thread", step.thread, "store")
    closed = ClosedSignal(begun.child, f"{begun.child}/closed", step.now, by, trace=step.trace)
    step.effects.append(Post(closed.id, closed))


def asked_for(step: Step) -> str:
    """A person asks for a summary: it is begun by the slice, which knows what the model would be shown."""
    if step.head.purpose == "compaction":
        return "this thread writes a summary itself"
    if step.head.compaction is not None:
        return "under way already"
    step.asked_for_summary = True
    return ABSORBED


def begin_asked_for(step: Step, shown: Projection) -> None:
    """Begin the summary that a person has asked for, if there is anything to sum up."""
    step.asked_for_summary = False
    cuts = _cuts(step.head, shown)
    if cuts and step.head.state != "closed" and step.head.compaction is None:
        begin(step, cuts[-1])
