"""What a thread remembers: the union of messages, and the parts they are made of.

Every message is immutable. Times are seconds since the epoch, UTC. A message's position (1, 2, 3, …)
is not inside it: the store keeps it beside the bytes. Fields are stored under their names with
defaults left out, so a field may be added with a default and must never change its meaning.
"""

import msgspec


class Stored(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Settings shared by every stored shape. A field from a newer release is an error, never dropped."""


class By(Stored, frozen=True):
    """Who or what sent something, and how that was verified."""

    kind: str
    """``person``, ``tool``, ``timer``, ``runtime`` or ``model``."""
    id: str = ""
    verified: str = ""
    """How: ``token``, ``callback``, ``process`` (a function of ours), or empty for not at all."""
    key_id: str = ""
    body_hash: str = ""


class Text(Stored, frozen=True, tag="text", tag_field="k"):
    """Words."""

    text: str


class Image(Stored, frozen=True, tag="image", tag_field="k"):
    """An image, as base64 text. ``handle`` names a blob instead where the bytes are kept outside."""

    data: str
    media_type: str
    handle: str = ""


class File(Stored, frozen=True, tag="file", tag_field="k"):
    """A document kept by name; ``text`` is what a model without file input is shown."""

    name: str
    media_type: str = "text/plain"
    data: str = ""
    text: str = ""


Part = Text | Image | File


class Reasoning(Stored, frozen=True, tag="reasoning", tag_field="k"):
    """Reasoning of one block. ``opaque`` is the provider's own value (a signature), sent back unchanged."""

    text: str = ""
    opaque: str = ""
    origin: str = ""
    """Which model family the opaque value belongs to; others leave the block out."""


class Call(Stored, frozen=True, tag="call", tag_field="k"):
    """The model's wish to use a tool. ``arguments`` is JSON text of an object."""

    id: str
    name: str
    arguments: str = "{}"
    provider_id: str = ""
    index: int = 0
    invalid: bool = False
    """The model's arguments were no JSON object; ``arguments`` then holds its text as it came."""
    server: str = ""
    """Base URL of the tool server it goes to; empty for a function or a built-in."""
    repeat: str = ""
    """``safe``, ``keyed`` or ``unsafe`` to run again after a crash."""
    passive: bool = False
    """It is a wait (a sleep), which news may end."""
    held: bool = False
    """Over the parallel limit: sent when a place is free."""
    opaque: str = ""


TurnPart = Text | Reasoning | Call


class Usage(Stored, frozen=True):
    """Tokens of one completion by class, as the provider reports them. Classes do not overlap."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    """Part of the output that was reasoning, where told; not included in ``output``."""

    @property
    def total(self) -> int:
        """All tokens that occupied the window."""
        return self.input + self.cache_read + self.cache_write + self.output + self.reasoning


class Segment(Stored, frozen=True):
    """One way of showing a result to people; never shown to a model. ``content`` is JSON text."""

    type: str
    content: str


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


class Born(Stored, frozen=True, tag="born", tag_field="n"):
    """The first message of a thread that is not a fork: whose thread it is."""

    agent: str
    definition: str = ""


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


Note = Born | Equipped | Queued | Detached | Parked | Resumed | Stopped | Closed | Unsubscribed | Late | Sent


class Noted(Stored, frozen=True, tag="noted", tag_field="k"):
    """A fact of the thread's life. No model is asked because of one."""

    at: float
    note: Note
    trace: str = ""


Message = Said | Turn | Result | Happened | Noted


def text_of(parts: tuple[object, ...]) -> str:
    """The text of all text parts, joined by line breaks."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))
