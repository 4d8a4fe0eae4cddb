"""Calls that an MCP server works on as tasks: looked at now and then, whatever connection and process did it.

Servers of 2025 give a task's result for ``tasks/result`` and ask people meanwhile on the same request; later
ones put all of that into the answer to ``tasks/get``, and take what people say with ``tasks/update``.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from torpor.core.text import clean

if TYPE_CHECKING:
    from torpor.tools.mcp.session import Session

LEAST_POLL, MOST_POLL = 0.5, 60.0
"""Seconds between looks at a task, whatever its server says."""
OVER = ("completed", "failed", "cancelled")
MESSAGE_KEPT = 500


class Look(msgspec.Struct, frozen=True):
    """What a server says of a task."""

    status: str
    message: str = ""
    poll: float = 0.0
    """Seconds until the next look; 0: it does not say."""
    result: Mapping[str, Any] | None = None
    error: str = ""
    requests: Mapping[str, Any] | None = None
    """What it asks for, by its own names."""

    @property
    def is_over(self) -> bool:
        """Nothing more becomes of it."""
        return self.status in OVER


async def look(session: "Session", task: str) -> Look:
    """Ask how a task is. Raises as ``Session.request`` does: ``Declined`` if the server does not know it."""
    return look_of(await session.request("tasks/get", {"taskId": task}))


def look_of(given: Mapping[str, Any]) -> Look:
    """An answer to ``tasks/get``, of either era."""
    error = given.get("error")
    requests, result = given.get("inputRequests"), given.get("result")
    return Look(
        status=str(given.get("status", "")),
        message=_words(given.get("statusMessage")),
        poll=seconds_of(given.get("pollIntervalMs", given.get("pollInterval"))),
        result=result if isinstance(result, dict) else None,
        error=_words(error.get("message")) if isinstance(error, dict) else "",
        requests=requests if isinstance(requests, dict) else None,
    )


def seconds_of(milliseconds: object) -> float:
    """Milliseconds as seconds; 0 for what is no number of them."""
    is_number = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
    usable = is_number and math.isfinite(milliseconds) and milliseconds > 0  # type: ignore[arg-type,operator]
    return milliseconds / 1000 if usable else 0.0  # type: ignore[operator]


def pause(poll: float) -> float:
    """How long to wait until the next look, where the server wants so many seconds."""
    return min(max(poll, LEAST_POLL), MOST_POLL)


async def answer(session: "Session", task: str, answers: Mapping[str, Any]) -> None:
    """Give a task what it asked for."""
    await session.request("tasks/update", {"taskId": task, "inputResponses": dict(answers)})


async def cancel(session: "Session", task: str) -> None:
    """Tell a server that nobody waits for a task any more."""
    await session.request("tasks/cancel", {"taskId": task})


def _words(text: object) -> str:
    return clean(" ".join(text.split()))[:MESSAGE_KEPT] if isinstance(text, str) else ""
