"""Facts of a thread's life, kept in its history. No model is asked because of one."""

from torpor.core.parts import By, Call, Link, OpenWait, Part, Stored


class Born(Stored, frozen=True, tag="born", tag_field="n"):
    """The first message of a thread: whose thread it is, what for, and where it comes from."""

    agent: str
    definition: str = ""
    purpose: str = "root"
    """``root``, ``child``, ``event`` or ``compaction``."""
    parent: str = ""
    ancestors: tuple[str, ...] = ()
    """Threads from the root to the parent."""
    call: str = ""
    """The parent's call that it was born of, if there is one."""
    name: str = ""
    """The tool of that call."""
    lineage: tuple[Link, ...] = ()
    """The histories it continues; empty for a fresh start."""
    quota: int = 0
    """How many threads may live below it at most. 0 for a root: by the agent's limits."""
    toolsets: dict[str, str] = {}
    """Manifests that it takes over, by tool server."""
    title: str = ""


class Equipped(Stored, frozen=True, tag="equipped", tag_field="n"):
    """The manifest of one tool server that this thread uses from here on. An empty hash: it goes without."""

    server: str
    manifest: str = ""
    reason: str = ""


class Queued(Stored, frozen=True, tag="queued", tag_field="n"):
    """Text that came while an exchange was open and is said at its end."""

    parts: tuple[Part, ...]
    signal: str
    by: By = By("person")


class Detached(Stored, frozen=True, tag="detached", tag_field="n"):
    """Calls that no longer hold the thread back; their results will come as injected events."""

    calls: tuple[str, ...]
    why: str
    asked: tuple[str, ...] = ()
    """Those of them for which a person is asked something."""


class Parked(Stored, frozen=True, tag="parked", tag_field="n"):
    """Set aside after a failure that repetition cannot cure. ``aside``: so are inputs not answered yet."""

    reason: str
    kind: str = ""
    aside: bool = False


class Resumed(Stored, frozen=True, tag="resumed", tag_field="n"):
    """It goes on, with a fresh allowance, because of ``text`` or a ``nudge``."""

    why: str


class Stopped(Stored, frozen=True, tag="stopped", tag_field="n"):
    """A person stopped it; text or a nudge resumes it."""

    why: str = ""


class Closed(Stored, frozen=True, tag="closed", tag_field="n"):
    """It ended for good."""

    why: str = ""


class Unsubscribed(Stored, frozen=True, tag="unsubscribed", tag_field="n"):
    """The subscription that a call opened was given up here."""

    call: str
    why: str


class Late(Stored, frozen=True, tag="late", tag_field="n"):
    """A result that came after its call was given up or answered: kept, not shown, no wake."""

    call: str
    parts: tuple[Part, ...]
    is_error: bool = False
    handle: str = ""
    size: int = 0
    signal: str = ""


class Sent(Stored, frozen=True, tag="sent", tag_field="n"):
    """Calls over the parallel limit that went out when places were free."""

    calls: tuple[str, ...]


class Spawned(Stored, frozen=True, tag="spawned", tag_field="n"):
    """A child was decided. ``events``: positions of the events that it is given."""

    child: str
    call: str
    purpose: str = "child"
    title: str = ""
    quota: int = 0
    events: tuple[int, ...] = ()
    source: str = ""
    """The subscription's call, for an event child."""


class Informed(Stored, frozen=True, tag="informed", tag_field="n"):
    """Its parent is told what became of it: nobody waits for its words any more."""

    what: str


class Addressed(Stored, frozen=True, tag="addressed", tag_field="n"):
    """A child was sent a message: it goes on."""

    child: str


class Adopted(Stored, frozen=True, tag="adopted", tag_field="n"):
    """Its parent closed, and it belongs to another one now, or to nobody (empty)."""

    parent: str
    ancestors: tuple[str, ...] = ()


class Forked(Stored, frozen=True, tag="forked", tag_field="n"):
    """Another thread continues this one's history from a position on."""

    heir: str
    at: int


class Titled(Stored, frozen=True, tag="titled", tag_field="n"):
    """It has a new title."""

    title: str


class Requested(Stored, frozen=True, tag="requested", tag_field="n"):
    """A person is asked something."""

    wait: OpenWait


class Answered(Stored, frozen=True, tag="answered", tag_field="n"):
    """A wait of a person's is over."""

    wait: str
    outcome: str
    """``chosen``, ``authorized``, ``approved``, ``denied``, ``dismissed``, ``expired``, or why it is moot:
    ``settled`` (its call is), ``interrupted``, ``stopped``, ``closed``, ``stale`` (what was approved is not
    what would run)."""
    value: str = ""
    comment: str = ""
    signal: str = ""
    by: By = By("runtime")


class Folded(Stored, frozen=True, tag="folded", tag_field="n"):
    """From here on, long results up to a position are shown by their beginning and a handle."""

    upto: int


class Compacting(Stored, frozen=True, tag="compacting", tag_field="n"):
    """A compaction child writes a summary of all up to a position. ``blocking``: no model is asked before."""

    child: str
    upto: int
    blocking: bool = False
    calls: tuple[Call, ...] = ()
    """Calls that it covers whose results come after it, or may still come: see ``Projection.cuts``."""
    before: int = 0
    """About how many tokens the refused request had; 0: as many as the last completion occupied."""


class Uncompacted(Stored, frozen=True, tag="uncompacted", tag_field="n"):
    """No summary came of it."""

    child: str
    reason: str


class Moved(Stored, frozen=True, tag="moved", tag_field="n"):
    """It goes on in another store; here it ended."""

    to: str


class Arrived(Stored, frozen=True, tag="arrived", tag_field="n"):
    """It came from another store, with all that was open."""

    origin: str
    servers: dict[str, str] = {}
    """Tool servers by the base URL that they had there, each with its URL from here on: their manifests are
    asked for anew."""


Note = (
    Born
    | Equipped
    | Queued
    | Detached
    | Parked
    | Resumed
    | Stopped
    | Closed
    | Unsubscribed
    | Late
    | Sent
    | Spawned
    | Informed
    | Addressed
    | Adopted
    | Forked
    | Titled
    | Requested
    | Answered
    | Folded
    | Compacting
    | Uncompacted
    | Moved
    | Arrived
)
