"""Torpor: a runtime for AI agents that live long and mostly wait."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torpor.agent import Agent
    from torpor.core.definition import Approvals, Events, Limits
    from torpor.core.errors import Broken, Conflict, Refused, TorporError, Unavailable
    from torpor.public import Event, Runtime, Thread
    from torpor.runtime.questions import Question, Settled
    from torpor.runtime.replies import Reply
    from torpor.runtime.retention import Keep
    from torpor.runtime.stepped import said
    from torpor.runtime.threads import Receipt
    from torpor.tools.bridged import McpServer, OAuth
    from torpor.tools.catalog import RapServer
    from torpor.tools.functions import ToolContext, tool
    from torpor.tools.mcp.clients import mcp_servers

__version__ = "0.1.0"

_HOMES = {
    "Agent": "torpor.agent",
    "Approvals": "torpor.core.definition",
    "Broken": "torpor.core.errors",
    "Conflict": "torpor.core.errors",
    "Event": "torpor.public",
    "Events": "torpor.core.definition",
    "Keep": "torpor.runtime.retention",
    "Limits": "torpor.core.definition",
    "McpServer": "torpor.tools.bridged",
    "OAuth": "torpor.tools.bridged",
    "Question": "torpor.runtime.questions",
    "RapServer": "torpor.tools.catalog",
    "Receipt": "torpor.runtime.threads",
    "Refused": "torpor.core.errors",
    "Reply": "torpor.runtime.replies",
    "Runtime": "torpor.public",
    "Settled": "torpor.runtime.questions",
    "Thread": "torpor.public",
    "ToolContext": "torpor.tools.functions",
    "TorporError": "torpor.core.errors",
    "Unavailable": "torpor.core.errors",
    "mcp_servers": "torpor.tools.mcp.clients",
    "said": "torpor.runtime.stepped",
    "tool": "torpor.tools.functions",
}

__all__ = [
    "Agent",
    "Approvals",
    "Broken",
    "Conflict",
    "Event",
    "Events",
    "Keep",
    "Limits",
    "McpServer",
    "OAuth",
    "Question",
    "RapServer",
    "Receipt",
    "Refused",
    "Reply",
    "Runtime",
    "Settled",
    "Thread",
    "ToolContext",
    "TorporError",
    "Unavailable",
    "mcp_servers",
    "said",
    "tool",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'torpor' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
