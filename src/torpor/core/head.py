"""The shape of a head: the small state of a thread. ``thread.py`` says how it grows."""

from torpor.core.messages import By, Part, Stored


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

    @property
    def owes(self) -> bool:
        """An answer is owed, blocked or not."""
        return self.owed > self.answered

    @property
    def active(self) -> bool:
        """A pending call is work in progress, not only a sleep."""
        return bool(self.pending) and any(not call.passive for call in self.pending.values())

    @property
    def busy(self) -> bool:
        """The exchange goes on: work is in progress, or an answer is owed that nothing holds back."""
        return self.active or (self.owes and not self.pending)
