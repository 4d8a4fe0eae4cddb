"""What messages, signals and heads are made of.

Times are seconds since the epoch, UTC. Fields are stored under their names with defaults left out, so a field
may be added with a default and must never change its meaning.
"""

import msgspec


class Stored(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Settings shared by every stored shape. A field from a newer release is an error, never dropped."""


class By(Stored, frozen=True):
    """Who or what sent something, and how that was verified."""

    kind: str
    """``person``, ``tool``, ``thread``, ``timer``, ``runtime`` or ``model``."""
    id: str = ""
    verified: str = ""
    """How: ``token``, ``callback``, ``signature`` (and a callback's token), ``process`` (a function of ours),
    ``store`` (another thread of this store), or empty for not at all."""
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
    """Not sent yet: over the parallel limit, or until a person approves it."""
    opaque: str = ""
    approval: bool = False
    """Sent only once a person has approved it."""
    awaits: tuple[str, ...] = ()
    """Of a passive wait for certain news: of which calls, subscriptions and threads."""
    needs: int = 0
    """Of how many of those there must be news."""


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


class Link(Stored, frozen=True):
    """One thread of a lineage: its history up to a position, both ends seen from the one who was born.

    With a ``summary`` (the position of that message), what it covers (up to ``base``), and every link before
    this one, is seen through the summary alone.
    """

    thread: str
    upto: int
    summary: int = 0
    base: int = 0
    folded: int = 0
    """Its long results up to here are shown by their beginning, as it shows them itself by then."""


class OpenWait(Stored, frozen=True):
    """What a person is asked: a choice, a form, an authorization or an approval. It belongs to a call."""

    id: str
    """The thread, the call and the kind, joined by dots."""
    kind: str
    """``choice``, ``form``, ``authorization`` or ``approval``."""
    call: str
    name: str
    """The tool's."""
    at: float = 0.0
    prompt: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""
    """What counts if nobody answers: an index of ``choices``, ``approve`` or ``deny``."""
    deadline: float = 0.0
    """When ``default`` counts as the answer; 0: never."""
    server: str = ""
    url: str = ""
    """Where the tool server takes the choice; of an authorization, the name under which its URL is kept."""
    arguments: str = "{}"
    """Of the call that shall be approved, cut to a marked beginning where long."""
    digest: str = ""
    """What is approved: hash of tool, server, arguments and policy."""
    schema: str = ""
    """Of a form: what its answer must be, a JSON Schema of an object, as JSON text."""
    told: bool = False
    """The tool server is told when an authorization is there; else it finds out by itself."""


def text_of(parts: tuple[object, ...]) -> str:
    """The text of all text parts, joined by line breaks."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))
