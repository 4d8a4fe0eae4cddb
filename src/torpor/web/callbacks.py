"""The way in for what tool servers send: the body is bounded, stored, and only then answered."""

import asyncio
import contextlib

from starlette.requests import Request
from starlette.responses import Response

from torpor.core.errors import Refused, TorporError
from torpor.ports import Queue
from torpor.tools.callbacks import Callbacks, Outcome
from torpor.web.bodies import Crowded, Room, TooLarge, TooSlow, discard, read
from torpor.web.problems import Failed, Failure, answer, log

SLOWEST_BODY = 120.0
"""Seconds that a callback's body may take to arrive."""

LARGE = 1024 * 1024
"""Bytes above which bodies are worked on one after the other: each takes its size many times over."""

_TYPES = {503: "unavailable"}
_LATER = Outcome(503, "The body took too long to arrive; send it again.", retry_after=5.0)
_CROWDED = Outcome(503, "Too much is being sent here at once; send it again.", retry_after=5.0)


class CallbackWeb:
    """``POST /callbacks/{token}``."""

    def __init__(
        self, callbacks: Callbacks, queue: Queue, seconds: float = SLOWEST_BODY, room: Room | None = None
    ) -> None:
        self._callbacks = callbacks
        self._queue = queue
        self._seconds = seconds
        self._room = room or Room()
        self._large = asyncio.Lock()

    async def receive(self, request: Request) -> Response:
        """Take one callback; answered when its news is durable and its thread was rung."""
        token = request.path_params["token"]
        refused = await self._callbacks.admits(token)
        if refused is not None:
            return await _unread(request, refused)
        with self._room.share() as grow:
            try:
                body = await read(request, self._callbacks.body_limit, self._seconds, grow)
            except TooSlow:
                # A tool server gives up after 4xx; one that is slow today shall try again.
                return _answer(_LATER, closing=True)
            except Crowded:
                return await _unread(request, _CROWDED)
            except TooLarge:
                return await _unread(request, await self._rung(await self._callbacks.too_large(token)))
            async with self._large if len(body) > LARGE else contextlib.nullcontext():
                outcome = await self._callbacks.receive(token, body, request.headers.items())
            return _answer(await self._rung(outcome))

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


async def _unread(request: Request, outcome: Outcome) -> Response:
    await discard(request)
    return _answer(outcome, closing=True)


def _answer(outcome: Outcome, *, closing: bool = False) -> Response:
    """``closing``: the body may not have been read, so the connection cannot be used again."""
    headers = {"Connection": "close"} if closing else {}
    if outcome.retry_after:
        headers["Retry-After"] = str(max(1, round(outcome.retry_after)))
    if outcome.status == 200:
        return Response(status_code=200, headers=headers)
    kind = _TYPES.get(outcome.status, "refused")
    return answer(outcome.status, Failed(Failure(kind, outcome.text)), headers)
