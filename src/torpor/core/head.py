"""The shape of a head: the small state of a thread. ``thread.py`` says how it grows."""

from torpor.core.parts import By, Call, Link, OpenWait, Part, Stored

WAIT_FOR = "wait_for"
"""The built-in that waits for certain news."""


class OpenCall(Stored, frozen=True):
    """What the head keeps of a call that may still get a result."""

    name: str
    turn: int
    """Position of its turn."""
    index: int = 0
    arguments: str = "{}"
    server: str = ""
    repeat: str = ""
    passive: bool = False
    held: bool = False
    """Not sent yet; its arguments are then kept whole."""
    at: float = 0.0
    given_up: str = ""
    """The cause for which the runtime settled it; one real result may still come."""
    seq: int = 0
    """The highest number among the events that came before its result."""
    ended: bool = False
    """The last event of its subscription came before the result that would have opened it."""
    approval: bool = False
    """Not sent before a person has approved it."""
    digest: str = ""
    """What a person has approved."""
    asked: dict[str, int] = {}
    """How often people were asked something for it, by the kind of the wait."""
    awaits: tuple[str, ...] = ()
    """Of a passive wait for certain news: of what none has come yet."""
    needs: int = 0
    """Of how many of those there must still be news; other news does not end it before."""

    @property
    def is_over(self) -> bool:
        """It waited for certain news, and that has come."""
        return self.name == WAIT_FOR and self.passive and not self.needs


class Subscription(Stored, frozen=True):
    """A settled call whose tool keeps sending events."""

    name: str
    arguments: str
    server: str
    opened: int
    """Position of the result that opened it."""
    at: float = 0.0
    seq: int = 0
    """The highest number of its source's own seen so far."""


class QueuedText(Stored, frozen=True):
    """Text to be said when the exchange ends."""

    parts: tuple[Part, ...]
    signal: str
    by: By
    at: float


RESTING = frozenset({"ended", "stopped"})
"""States of children below which nothing works."""


class Child(Stored, frozen=True):
    """A living child of a thread."""

    call: str
    purpose: str = "child"
    at: float = 0.0
    title: str = ""
    quota: int = 0
    """How many threads may live below it at most."""
    state: str = "open"
    """``open``, ``ended`` (its exchange is over), ``parked`` or ``stopped``, as it said last."""
    source: str = ""
    """For an event child: the call of the subscription."""

    @property
    def places(self) -> int:
        """How many threads it counts as: itself and, where something may work, all that may live below it."""
        return 1 if self.state in RESTING else self.quota + 1


class Gathered(Stored, frozen=True):
    """Events of one subscription that no child has been given yet, by position."""

    positions: tuple[int, ...]
    since: float
    """When the first of them came."""
    first: int = 0
    """The position of that first one, which may have been given away meanwhile."""

    def timer(self, call: str) -> str:
        """The id of the timer of their gathering."""
        return f"{call}/events/{self.first}"


class Compaction(Stored, frozen=True):
    """A summary that is being written. ``before``: tokens of the window when it was begun."""

    child: str
    upto: int
    at: float
    before: int = 0
    blocking: bool = False
    calls: tuple[Call, ...] = ()
    """Calls that it covers and whose results may come after it."""


class Exchange(Stored, frozen=True):
    """What has been spent since news from outside opened the exchange."""

    open: bool = False
    since: float = 0.0
    completions: int = 0
    loopbacks: int = 0
    tokens: int = 0
    seconds: float = 0.0


class Head(Stored, frozen=True):
    """The state of a thread. ``length`` is also the position of its last message."""

    agent: str = ""
    definition: str = ""
    state: str = "open"
    """``open``, ``parked``, ``stopped`` or ``closed``."""
    length: int = 0
    ordinal: int = 0
    """Completions so far."""
    answered: int = 0
    """The highest position that a turn has answered."""
    owed: int = 0
    """The position of the latest message that an answer is owed to."""
    exchange: Exchange = Exchange()
    pending: dict[str, OpenCall] = {}
    detached: dict[str, OpenCall] = {}
    subscriptions: dict[str, Subscription] = {}
    queued: tuple[QueuedText, ...] = ()
    toolsets: dict[str, str] = {}
    window: int = 0
    """Tokens that the last completion occupied."""
    reason: str = ""
    """Why it is parked."""
    turned: int = 0
    """The position of its last turn."""

    purpose: str = "root"
    """What it is for: ``root``, ``child``, ``event`` or ``compaction``."""
    parent: str = ""
    ancestors: tuple[str, ...] = ()
    """Threads from the root to the parent."""
    birth: str = ""
    """The parent's call that it was born of."""
    birth_name: str = ""
    """The tool of that call."""
    lineage: tuple[Link, ...] = ()
    quota: int = 0
    """How many threads may live below it; 0 for a root: by the agent's limits."""
    used: int = 0
    """How many of those are taken by living children, each as many as it counts for; see ``Child.places``."""
    title: str = ""
    heard: bool = True
    """It has reported since its parent last spoke to it: nobody waits for its words."""
    rested: bool = False
    """Its parent knows that it has come to an end since it last spoke to it."""
    last_words: str = ""
    """Of a child that has not been heard: what it wrote last, cut where long."""
    children: dict[str, Child] = {}
    heirs: dict[str, int] = {}
    """Forks that continue this history, each from a position on."""
    gathered: dict[str, Gathered] = {}
    """Events to be given to children, by the subscription's call."""

    waits: dict[str, OpenWait] = {}
    """What people are asked."""

    base: int = 0
    """The position up to which the summary at position ``summary`` stands for history."""
    summary: int = 0
    folded: int = 0
    """Long results up to this position are shown by their beginning."""
    compaction: Compaction | None = None
    uncompacted: int = 0
    """Compactions in a row that brought nothing."""
    uncompacted_why: str = ""
    """What was said of the last of them."""
    measured: int = 0
    """Tokens of the window before the last compaction, until the next turn shows what it brought."""

    @property
    def owes(self) -> bool:
        """An answer is owed, blocked or not."""
        return self.owed > self.answered

    @property
    def blocked(self) -> bool:
        """The model is not asked before a summary has made room."""
        return self.compaction is not None and self.compaction.blocking

    @property
    def active(self) -> bool:
        """A pending call is work in progress, not only a sleep."""
        return bool(self.pending) and any(not call.passive for call in self.pending.values())

    @property
    def withholds(self) -> bool:
        """News waits for something: for work in progress, or for other news."""
        return bool(self.pending) and any(not call.passive or call.needs for call in self.pending.values())

    @property
    def busy(self) -> bool:
        """The exchange goes on: work is in progress, or an answer is owed that nothing holds back."""
        return self.active or (self.owes and not self.pending)
