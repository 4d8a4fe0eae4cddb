"""What a thread remembers: the union of messages. All shapes of a history can be imported from here.

Every message is immutable. A message's position (1, 2, 3, …) is not inside it: the store keeps it beside the
bytes.
"""

from torpor.core.notes import (
    Addressed,
    Adopted,
    Answered,
    Arrived,
    Born,
    Closed,
    Compacting,
    Detached,
    Equipped,
    Folded,
    Forked,
    Informed,
    Late,
    Moved,
    Note,
    Parked,
    Queued,
    Requested,
    Resumed,
    Sent,
    Spawned,
    Stopped,
    Titled,
    Uncompacted,
    Unsubscribed,
)
from torpor.core.parts import (
    By,
    Call,
    File,
    Image,
    Link,
    OpenWait,
    Part,
    Reasoning,
    Segment,
    Stored,
    Text,
    TurnPart,
    Usage,
    text_of,
)

__all__ = [
    "Addressed",
    "Adopted",
    "Answered",
    "Arrived",
    "Born",
    "By",
    "Call",
    "Closed",
    "Compacting",
    "Detached",
    "Equipped",
    "File",
    "Folded",
    "Forked",
    "Happened",
    "Image",
    "Informed",
    "Late",
    "Link",
    "Message",
    "Moved",
    "Note",
    "Noted",
    "OpenWait",
    "Parked",
    "Part",
    "Queued",
    "Reasoning",
    "Reported",
    "Requested",
    "Result",
    "Resumed",
    "Said",
    "Segment",
    "Sent",
    "Spawned",
    "Stopped",
    "Stored",
    "Summary",
    "Text",
    "Titled",
    "Turn",
    "TurnPart",
    "Uncompacted",
    "Unsubscribed",
    "Usage",
    "text_of",
]


class Said(Stored, frozen=True, tag="said", tag_field="k"):
    """Text (and images, files) of a person."""

    at: float
    parts: tuple[Part, ...]
    signal: str = ""
    by: By = By("person")
    mode: str = "steer"
    sent_at: float = 0.0
    """When it was sent, if it waited for the end of an exchange before it was said."""
    trace: str = ""


class Turn(Stored, frozen=True, tag="turn", tag_field="k"):
    """All that a model produced in one completion; enters whole or not at all."""

    at: float
    upto: int
    """The last position its request covered."""
    ordinal: int
    """Number of this completion in its thread, from 0; empty and cut ones count."""
    parts: tuple[TurnPart, ...] = ()
    model: str = ""
    product: str = ""
    provider_ids: tuple[str, ...] = ()
    usage: Usage | None = None
    seconds: float = 0.0
    stop: str = ""
    """Why the model stopped: ``end``, ``calls``, ``length``, ``refusal``, ``cut`` or the provider's word."""
    cut: bool = False
    """A person cut it short: an answer is still owed."""
    loopback: bool = False
    """All its calls were refused or decided here: the next completion is a loop-back."""
    end: bool = False
    """It ended its exchange."""
    trace: str = ""


class Result(Stored, frozen=True, tag="result", tag_field="k"):
    """What settles a call. ``cause`` is empty for a tool's own answer, else why the runtime settled it."""

    at: float
    call: str
    parts: tuple[Part, ...] = ()
    is_error: bool = False
    cause: str = ""
    handle: str = ""
    """Names the blob with the whole text, where ``parts`` hold only the beginning."""
    size: int = 0
    """Characters of the whole text, where a handle is given."""
    display: tuple[Segment, ...] = ()
    subscription: bool = False
    signal: str = ""
    by: By = By("runtime")
    event_id: str = ""
    occurred_at: str = ""
    trace: str = ""


class Happened(Stored, frozen=True, tag="happened", tag_field="k"):
    """An event of a subscription."""

    at: float
    call: str
    """The call that opened the subscription."""
    name: str
    arguments: str
    parts: tuple[Part, ...]
    handle: str = ""
    size: int = 0
    final: bool = False
    associative: bool = False
    signal: str = ""
    by: By = By("tool")
    event_id: str = ""
    seq: int = 0
    gap: int = 0
    """How many events of the source's own numbering are missing just before this one."""
    occurred_at: str = ""
    natural_key: str = ""
    trace: str = ""
    threaded: bool = False
    """It is given to a child thread of its own, not to this thread's model."""


class Reported(Stored, frozen=True, tag="reported", tag_field="k"):
    """Word from another thread: a child's report, what became of it, or a parent's message."""

    at: float
    thread: str
    """Who says it."""
    what: str
    """From a child: ``report``, ``ended`` (its exchange ended without a report; these are its last words),
    ``rested`` (it ended after a report), ``parked``, ``stopped``, ``closed``, ``adopted``. From a parent:
    ``born``, ``told``. From the runtime: ``undelivered`` (what this thread said to it did not arrive)."""
    call: str
    """The call that made the child, as its parent knows it."""
    name: str
    """The tool of that call."""
    arguments: str = "{}"
    parts: tuple[Part, ...] = ()
    purpose: str = "child"
    """The child's."""
    owes: bool = True
    """An answer is owed to it."""
    signal: str = ""
    by: By = By("thread")
    trace: str = ""


class Summary(Stored, frozen=True, tag="summary", tag_field="k"):
    """Stands for all messages up to ``upto``, and for the lineage before them."""

    at: float
    upto: int
    text: str
    """The model's words."""
    facts: str = ""
    """What the runtime knows besides: title, children, subscriptions, pending calls, open waits."""
    calls: tuple[Call, ...] = ()
    """Calls it covers whose results came after ``upto`` or may still come: see ``Compacting.calls``."""
    before: int = 0
    """Tokens of the window when it was begun."""
    signal: str = ""
    by: By = By("thread")
    trace: str = ""


class Noted(Stored, frozen=True, tag="noted", tag_field="k"):
    """A fact of the thread's life. No model is asked because of one."""

    at: float
    note: Note
    trace: str = ""


Message = Said | Turn | Result | Happened | Reported | Summary | Noted
