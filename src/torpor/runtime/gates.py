"""A gate per model: shut until the instant its provider named, for all threads that use it."""

from torpor.ports import Side

SPACE = "gates"


class Gates:
    """Kept in the store, remembered here; others learn of one at their start or by a failure of their own."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._until: dict[str, float] = {}

    async def until(self, model: str) -> float:
        """Nobody should ask the model before this instant; 0: it is open."""
        known = self._until.get(model)
        if known is None:
            stored = await self._side.get(SPACE, model)
            known = self._until[model] = float(stored) if stored else 0.0
        return known

    async def shut(self, model: str, until: float) -> None:
        """Shut the gate until an instant; a later one that is known already stays."""
        if until > await self.until(model):
            self._until[model] = until
            await self._side.put(SPACE, model, str(until).encode())
