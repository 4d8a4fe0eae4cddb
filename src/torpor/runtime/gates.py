"""A gate per model: shut until the instant its provider named, for all threads that use it."""

from torpor.ports import Clock, Model, Side

SPACE = "gates"


FRESH = 1.0
"""Seconds for which what was read of a gate is taken as it stands."""


def gate_of(model: Model) -> str:
    """What names a model's gate: its provider's account and its name, where the model tells them."""
    return str(getattr(model, "gate", "") or model.name)


class Gates:
    """Kept in the store, so that all processes see them; read again when a second old."""

    def __init__(self, side: Side, clock: Clock) -> None:
        self._side = side
        self._clock = clock
        self._known: dict[str, tuple[float, float]] = {}

    async def until(self, model: str) -> float:
        """Nobody should ask the model before this instant; 0: it is open."""
        until, read = self._known.get(model, (0.0, -FRESH))
        now = self._clock.now()
        if now - read < FRESH:
            return until
        stored = await self._side.get(SPACE, model)
        until = float(stored) if stored else 0.0
        self._known[model] = (until, now)
        return until

    async def shut(self, model: str, until: float) -> None:
        """Shut the gate until an instant; a later one that is known already stays."""
        self._known.pop(model, None)
        if until > await self.until(model):
            await self._side.put(SPACE, model, str(until).encode())
            self._known[model] = (until, self._clock.now())
