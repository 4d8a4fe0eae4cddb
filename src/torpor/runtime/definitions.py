"""What agents were, kept by the hash that records name: instructions, model, settings and tools as told."""

import msgspec

from torpor.ports import Side
from torpor.runtime.roster import Outfit

SPACE = "definitions"


class Definitions:
    """Writes each definition once."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._kept: set[str] = set()

    async def keep(self, outfit: Outfit) -> str:
        """Make sure that a definition is kept; gives its hash."""
        hash = outfit.fixed.epoch
        if hash not in self._kept:
            told = outfit.definition
            body = msgspec.json.encode(
                {
                    "agent": told.agent,
                    "model": told.model,
                    "instructions": told.instructions,
                    "settings": told.settings,
                    "tools": outfit.fixed.tools,
                }
            )
            await self._side.put_new(SPACE, hash, body)
            self._kept.add(hash)
        return hash
