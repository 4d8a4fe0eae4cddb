"""What a model is asked: a thread's projection with all that is the same in each of its requests."""

from hashlib import sha256

import msgspec

from torpor.core.definition import Definition
from torpor.core.items import DIGEST
from torpor.core.projection import Projection
from torpor.core.request import PROJECTION, Request

__all__ = ["Fixed", "Projection", "request"]

_encode = msgspec.msgpack.Encoder().encode


def request(definition: Definition, projection: Projection, fixed: "Fixed") -> Request:
    """The request for a projection whose last news has been shown."""
    whole = sha256(fixed.digest + projection.digest)
    return Request(
        agent=definition.agent,
        model=definition.model,
        instructions=definition.instructions,
        tools=fixed.tools,
        items=tuple(projection.items),
        settings=definition.settings,
        hash=whole.hexdigest()[: 2 * DIGEST],
        epoch=fixed.epoch,
    )


class Fixed:
    """What is the same in all requests of a definition, hashed once."""

    __slots__ = ("digest", "epoch", "tools")

    def __init__(self, definition: Definition) -> None:
        self.tools = tuple(spec.shown() for spec in definition.tools.values())
        model = [PROJECTION, definition.agent, definition.model, definition.settings]
        told = [definition.instructions, self.tools]
        self.digest = sha256(_encode([model, told])).digest()[:DIGEST]
        self.epoch = self.digest.hex()
