"""What may wake a thread: the union of signals.

A signal counts once per ``(thread, id)``. ``due`` is the instant before which it does not exist for its
thread (0: at once); a timer is a signal that is not due yet.
"""

from torpor.core.messages import Happened
from torpor.core.parts import By, Link, Part, Segment, Stored


class Signal(Stored, frozen=True, tag_field="k"):
    """Fields common to all signals."""

    thread: str
    id: str
    at: float
    """When it was sent."""
    by: By = By("runtime")
    due: float = 0.0
    tier: str = ""
    """Overrides the thread's tier; empty: the thread's."""
    start_by: float = 0.0
    """The latest instant at which a slice should start for it; 0: by its tier."""
    trace: str = ""


class SaidSignal(Signal, frozen=True, tag="said"):
    """A person speaks. ``mode`` is ``steer``, ``queue`` or ``interrupt``."""

    parts: tuple[Part, ...] = ()
    mode: str = "steer"


class Finished(Signal, frozen=True, tag="finished"):
    """The result of a call, from its tool or, with a ``cause``, from the runtime itself."""

    call: str = ""
    parts: tuple[Part, ...] = ()
    is_error: bool = False
    cause: str = ""
    handle: str = ""
    size: int = 0
    display: tuple[Segment, ...] = ()
    subscription: bool = False
    event_id: str = ""
    occurred_at: str = ""


class HappenedSignal(Signal, frozen=True, tag="happened"):
    """An event of the subscription that ``call`` opened."""

    call: str = ""
    parts: tuple[Part, ...] = ()
    handle: str = ""
    size: int = 0
    final: bool = False
    associative: bool = False
    event_id: str = ""
    seq: int = 0
    occurred_at: str = ""
    natural_key: str = ""


class Due(Signal, frozen=True, tag="due"):
    """A timer of the thread's own: the end of a sleep, or of the time a call was given."""

    call: str = ""
    """Or, for ``wait``, the id of the wait; for ``compaction``, the child."""
    what: str = "sleep"
    """``sleep``, ``deadline``, ``withheld``, ``wait`` (a person's answer is due), ``events`` (gathering
    ends), ``status`` (ask the tool server whether it still works on the call) or ``compaction``."""
    position: int = 0
    """Of the news that is withheld no longer than this."""


class StoppedSignal(Signal, frozen=True, tag="stopped"):
    """A person stops the thread."""


class ClosedSignal(Signal, frozen=True, tag="closed"):
    """The thread ends for good."""


class Nudged(Signal, frozen=True, tag="nudged"):
    """A person asks a parked, stopped or quiet thread to go on."""


class BornSignal(Signal, frozen=True, tag="born"):
    """The first signal of a child: what it is for, and where it comes from; see ``Born``."""

    purpose: str = "child"
    parent: str = ""
    ancestors: tuple[str, ...] = ()
    call: str = ""
    name: str = ""
    arguments: str = "{}"
    lineage: tuple[Link, ...] = ()
    quota: int = 0
    toolsets: dict[str, str] = {}
    title: str = ""
    parts: tuple[Part, ...] = ()
    """Its instructions."""
    events: tuple[Happened, ...] = ()
    """For an event child: the events, as its parent recorded them."""


class ReportedSignal(Signal, frozen=True, tag="reported"):
    """A child says something to its parent, or something became of it; see ``Reported``."""

    child: str = ""
    what: str = "report"
    """``report``, ``ended``, ``rested``, ``parked``, ``stopped``, ``closed`` or ``adopted``."""
    call: str = ""
    name: str = ""
    purpose: str = "child"
    parts: tuple[Part, ...] = ()
    quota: int = 0
    """Of a child that is handed over: how many threads may live below it."""
    title: str = ""
    owes: bool = True
    """The parent's model is asked: somebody may wait for this."""


class Told(Signal, frozen=True, tag="told"):
    """A parent speaks to its child; or the runtime tells a thread what could not be delivered."""

    sender: str = ""
    """The parent; for ``undelivered``, the thread that it was meant for."""
    what: str = "told"
    """``told``, ``undelivered`` or ``adopted`` (by ``sender``)."""
    parts: tuple[Part, ...] = ()
    ancestors: tuple[str, ...] = ()
    """With ``adopted``: the threads from the root to the new parent."""


class RequestedSignal(Signal, frozen=True, tag="requested"):
    """A tool server needs a person for a call: to choose, to fill in a form, or to authorize it."""

    call: str = ""
    kind: str = "choice"
    """``choice``, ``form`` or ``authorization``."""
    prompt: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""
    url: str = ""
    expires: float = 0.0
    schema: str = ""
    """Of a form; see ``OpenWait``."""
    told: bool = False
    """See ``OpenWait``."""


class AnsweredSignal(Signal, frozen=True, tag="answered"):
    """A person answers a wait. ``value``: an index of the choices, a form's JSON object as text, ``decline``
    (to fill in a form), ``approve``, ``deny``, ``done`` or ``dismiss``.
    """

    wait: str = ""
    value: str = ""
    comment: str = ""


class Compacted(Signal, frozen=True, tag="compacted"):
    """A compaction child is done: with a summary or, where ``text`` is empty, with why there is none."""

    child: str = ""
    text: str = ""
    reason: str = ""


class CompactSignal(Signal, frozen=True, tag="compact"):
    """A person asks for a summary of the history now, however full the window is."""


class ForkedSignal(Signal, frozen=True, tag="forked"):
    """Another thread continues this one's history from position ``at`` of it on."""

    heir: str = ""
    position: int = 0


URGENT = frozenset({"stopped", "closed", "nudged", "interrupt"})
"""Kinds that are looked at although a failed try waits for its time."""


def kind_of(signal: "AnySignal") -> str:
    """A signal's kind, as stores keep it beside its bytes: its tag, or ``interrupt`` for such words."""
    if isinstance(signal, SaidSignal) and signal.mode == "interrupt":
        return "interrupt"
    return str(signal.__struct_config__.tag)


def is_urgent(signal: "AnySignal") -> bool:
    """A person wants something to end, or to go on, now."""
    return kind_of(signal) in URGENT


AnySignal = (
    SaidSignal
    | Finished
    | HappenedSignal
    | Due
    | StoppedSignal
    | ClosedSignal
    | Nudged
    | BornSignal
    | ReportedSignal
    | Told
    | RequestedSignal
    | AnsweredSignal
    | Compacted
    | CompactSignal
    | ForkedSignal
)
