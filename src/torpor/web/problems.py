"""What is told to who asked wrongly, or at a bad moment: a status, and one JSON shape for all errors."""

import logging
from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from torpor.core.errors import Broken, Conflict, Refused, TorporError, Unavailable
from torpor.runtime.threads import Contradicts, UnknownThread

log = logging.getLogger("torpor.web")

RETRY_SECONDS = 5.0
_UNEXPECTED = "Something went wrong in the server; its log says what."


class Failure(msgspec.Struct, frozen=True):
    """What went wrong. ``type``: ``refused``, ``conflict``, ``unavailable`` or ``broken``."""

    type: str
    message: str


class Failed(msgspec.Struct, frozen=True):
    """The body of every answer that is no success."""

    error: Failure


class Problem(Exception):
    """A refusal with a status of its own."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = dict(headers or {})


def answer(status: int, value: object, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer, which nobody on the way may keep."""
    told = {"Cache-Control": "no-store", **(headers or {})}
    return Response(msgspec.json.encode(value), status, headers=told, media_type="application/json")


def answer_error(error: Exception) -> Response:
    """The answer for anything that was raised; what is not for the asker goes to the log only."""
    match error:
        case Problem():
            return _failed(error.status, _type_of(error.status), str(error), error.headers)
        case HTTPException():
            return _failed(error.status_code, _type_of(error.status_code), error.detail, error.headers)
        case UnknownThread():
            return _failed(404, "refused", str(error))
        case Contradicts():
            return _failed(409, "refused", str(error))
        case Refused():
            return _failed(400, "refused", str(error))
        case Conflict():
            return _failed(409, "conflict", str(error))
        case Unavailable():
            wait = max(1, round(error.retry_after or RETRY_SECONDS))
            return _failed(503, "unavailable", str(error), {"Retry-After": str(wait)})
        case Broken() | TorporError():
            log.error("A request met what is broken: %s", error)
            return _failed(500, "broken", str(error))
        case _:
            log.error("A request failed in a way it should not", exc_info=error)
            return _failed(500, "broken", _UNEXPECTED)


def _type_of(status: int) -> str:
    return "unavailable" if status == 503 else "broken" if status >= 500 else "refused"


def _failed(status: int, kind: str, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return answer(status, Failed(Failure(kind, text)), headers)
