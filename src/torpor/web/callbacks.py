"""The way in for what tool servers send: the body is bounded, stored, and only then answered."""

from starlette.requests import Request
from starlette.responses import Response

from torpor.core.errors import Refused, TorporError
from torpor.ports import Queue
from torpor.tools.callbacks import Callbacks, Outcome
from torpor.web.bodies import TooLarge, TooSlow, read
from torpor.web.problems import Failed, Failure, answer, log

SLOWEST_BODY = 120.0
"""Seconds that a callback's body may take to arrive."""

_TYPES = {503: "unavailable"}
_LATER = Outcome(503, "The body took too long to arrive; send it again.", retry_after=5.0)


class CallbackWeb:
    """``POST /callbacks/{token}``."""

    def __init__(self, callbacks: Callbacks, queue: Queue, seconds: float = SLOWEST_BODY) -> None:
        self._callbacks = callbacks
        self._queue = queue
        self._seconds = seconds

    async def receive(self, request: Request) -> Response:
        """Take one callback; answered when its news is durable and its thread was rung."""
        token = request.path_params["token"]
        refused = await self._callbacks.admits(token)
        if refused is not None:
            return _answer(refused, closing=True)
        try:
            body = await read(request, self._callbacks.body_limit, self._seconds)
        except TooSlow:
            # A tool server gives up after 4xx; one that is slow today shall try again.
            return _answer(_LATER, closing=True)
        except TooLarge:
            return _answer(await self._rung(await self._callbacks.too_large(token)), closing=True)
        webhook_id = request.headers.get("webhook-id", "")
        return _answer(await self._rung(await self._callbacks.receive(token, body, webhook_id=webhook_id)))

    async def _rung(self, outcome: Outcome) -> Outcome:
        """Ring for what is stored. A ring that fails is no loss: the sweep finds the thread."""
        if outcome.ring is not None:
            try:
                await self._queue.ring([outcome.ring])
            except Refused:
                raise
            except TorporError as error:
                log.warning("A callback is stored and its thread could not be rung: %s", error)
        return outcome


def _answer(outcome: Outcome, *, closing: bool = False) -> Response:
    """``closing``: the body may not have been read, so the connection cannot be used again."""
    headers = {"Connection": "close"} if closing else {}
    if outcome.retry_after:
        headers["Retry-After"] = str(max(1, round(outcome.retry_after)))
    if outcome.status == 200:
        return Response(status_code=200, headers=headers)
    kind = _TYPES.get(outcome.status, "refused")
    return answer(outcome.status, Failed(Failure(kind, outcome.text)), headers)
