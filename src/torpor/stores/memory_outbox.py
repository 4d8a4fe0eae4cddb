"""Effects in the outbox of a thread in memory: who holds them, and from when on they may be taken."""

from torpor.core.effects import Effect
from torpor.ports import OutboxRow

HASTENED = -1.0
"""As ``not_before``: due now, also once it is given back by who holds it."""


class Waiting:
    """An effect that is not acknowledged yet."""

    __slots__ = ("attempt", "claimed_until", "created", "effect", "holder", "not_before")

    def __init__(self, effect: Effect, claimed_until: float, holder: str, created: float) -> None:
        self.effect = effect
        self.attempt = 1 if claimed_until > 0 else 0
        self.not_before = 0.0
        self.claimed_until = claimed_until
        self.holder = holder
        self.created = created

    @property
    def due(self) -> float:
        """When it is free to be taken."""
        return max(self.not_before, self.claimed_until)

    def row(self) -> OutboxRow:
        """The effect as others see it."""
        return OutboxRow(self.effect, self.attempt, self.not_before, self.claimed_until)

    def take(self, until: float, holder: str, now: float) -> bool:
        """Take or renew it, if it is free or the holder's own."""
        if self.claimed_until > now:
            if self.holder != holder:
                return False
        elif self.not_before > now:
            return False
        else:
            self.attempt += 1
            self.not_before = max(0.0, self.not_before)
        self.claimed_until, self.holder = until, holder
        return True

    def give_back(self, not_before: float, holder: str, now: float, *, begun: bool) -> None:
        """Make it free from an instant on, unless somebody else holds it."""
        if not begun and self.holder == holder and self.claimed_until:
            self.attempt -= 1
        if self.claimed_until <= now or self.holder == holder:
            self.claimed_until = 0.0
            self.not_before = not_before if self.not_before >= 0 else 0.0

    def hasten(self) -> None:
        """Make it due now, or as soon as it is given back."""
        self.not_before = HASTENED
