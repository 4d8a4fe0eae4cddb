"""What the runtime needs of the outside, as protocols. Each has at least two real implementations.

Times are seconds since the epoch, UTC. All methods raise ``Unavailable`` when the outside is busy or away
and ``Broken`` when what it holds cannot be read.
"""

from torpor.ports.outside import (
    Clock,
    Later,
    Live,
    LiveEvent,
    Model,
    Transport,
)
from torpor.ports.queues import (
    Lease,
    Queue,
    Ring,
)
from torpor.ports.retention import (
    BY_THREAD,
    DELETED,
    NAMING,
    Backend,
    Retention,
)
from torpor.ports.rows import (
    LOADED,
    Asked,
    Commit,
    Exported,
    OutboxRow,
    Posted,
    Row,
    Snapshot,
    StoredMessage,
    Version,
)
from torpor.ports.stores import (
    AUTHORIZATIONS,
    FORWARDS,
    MCP_CALLS,
    WEBHOOKS,
    Side,
    Store,
)

__all__ = [
    "AUTHORIZATIONS",
    "BY_THREAD",
    "DELETED",
    "FORWARDS",
    "LOADED",
    "MCP_CALLS",
    "NAMING",
    "WEBHOOKS",
    "Asked",
    "Backend",
    "Clock",
    "Commit",
    "Exported",
    "Later",
    "Lease",
    "Live",
    "LiveEvent",
    "Model",
    "OutboxRow",
    "Posted",
    "Queue",
    "Retention",
    "Ring",
    "Row",
    "Side",
    "Snapshot",
    "Store",
    "StoredMessage",
    "Transport",
    "Version",
]
