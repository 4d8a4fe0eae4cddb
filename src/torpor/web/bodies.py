"""Request bodies: bounded in size and time, strict JSON, no member twice, lone surrogates replaced."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from torpor.core.text import cleaned, read_json
from torpor.web.problems import Problem

SLOWEST_BODY = 30.0
"""Seconds that a body may take to arrive."""

ROOM = 256 * 1024 * 1024
"""Bytes of bodies that one ``Room`` holds at once."""
SMALL = 64 * 1024
"""Bytes of each body that find room always."""
LINGERING = 2.0
"""Seconds for which a body that is not wanted is read all the same."""
LINGERING_BYTES = 32 * 1024 * 1024
"""Bytes of it that are read at most."""

T = TypeVar("T")


class TooLarge(Exception):
    """A body is over its limit."""


class TooSlow(Problem):
    """A body did not arrive in time."""

    def __init__(self) -> None:
        super().__init__(408, "The body took too long to arrive.", {"Connection": "close"})


class Crowded(Exception):
    """So many bodies are here already that this one must come again later."""


class Room:
    """Memory for bodies: however many come at once, together they hold a bounded number of bytes."""

    def __init__(self, size: int = ROOM) -> None:
        self._left = size

    @contextlib.contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """A share that grows by calling it; given back at the end. ``Crowded`` if nothing is left."""
        taken = -SMALL

        def grow(size: int) -> None:
            nonlocal taken
            more = max(0, taken + size) - max(0, taken)
            if more > self._left:
                raise Crowded
            taken += size
            self._left -= more

        try:
            yield grow
        finally:
            self._left += max(0, taken)


async def read(
    request: Request,
    limit: int,
    seconds: float = SLOWEST_BODY,
    grow: Callable[[int], None] = lambda _: None,
) -> bytes:
    """The whole body. ``TooLarge`` as soon as more than ``limit`` bytes are announced or have come.

    ``TooSlow`` if it takes more than so many seconds. ``grow`` is told the size of each piece.
    """
    announced = request.headers.get("content-length", "0")
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > limit:
        raise TooLarge
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                size += len(piece)
                if size > limit:
                    raise TooLarge
                grow(len(piece))
                pieces.append(piece)
    except TimeoutError:
        raise TooSlow from None
    except ClientDisconnect:
        raise Problem(400, "The connection ended inside the body.") from None
    return b"".join(pieces)


async def discard(request: Request, seconds: float = LINGERING) -> None:
    """Read on for a while and forget it: who finds the line broken while sending never sees the answer."""
    left = LINGERING_BYTES
    # RuntimeError: the body was at its end already.
    with contextlib.suppress(TimeoutError, ClientDisconnect, RuntimeError):
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                left -= len(piece)
                if left < 0:
                    return


async def value(request: Request, kind: type[T], limit: int) -> T:
    """The JSON body as a value of ``kind``. A ``Problem`` says what is wrong with it."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Problem(415, "Send the body as Content-Type: application/json.")
    try:
        body = await read(request, limit)
    except TooLarge:
        await discard(request)
        raise Problem(413, f"A body may have at most {limit} bytes.", {"Connection": "close"}) from None
    return convert(parse(body), kind)


def parse(body: bytes) -> dict[str, Any]:
    """One JSON object, UTF-8, without NaN and infinities, in which no member comes twice."""
    try:
        found = cleaned(read_json(body, _members))
    except RecursionError:
        raise Problem(400, "The body is nested too deeply.") from None
    except ValueError as error:
        raise Problem(400, f"The body is not valid JSON: {error}.") from None
    if not isinstance(found, dict):
        raise Problem(400, "The body must be a JSON object.")
    return found


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; who wrote a member twice may mean either, so nobody guesses."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member comes twice")
    return members


def convert(found: dict[str, Any], kind: type[T]) -> T:
    """A parsed object as a value of ``kind``."""
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise Problem(400, f"The body is not as expected: {error}.") from None
