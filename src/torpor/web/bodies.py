"""Request bodies: bounded in size and time, strict JSON, lone surrogates replaced."""

import asyncio
import json
import math
from typing import Any, NoReturn, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from torpor.core.turn import clean
from torpor.web.problems import Problem

SLOWEST_BODY = 30.0
"""Seconds that a body may take to arrive."""

T = TypeVar("T")


class TooLarge(Exception):
    """A body is over its limit."""


class TooSlow(Problem):
    """A body did not arrive in time."""

    def __init__(self) -> None:
        super().__init__(408, "The body took too long to arrive.", {"Connection": "close"})


async def read(request: Request, limit: int, seconds: float = SLOWEST_BODY) -> bytes:
    """The whole body. ``TooLarge`` as soon as more than ``limit`` bytes are announced or have come.

    ``TooSlow`` if it takes more than so many seconds.
    """
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced[:20]) > limit:
        raise TooLarge
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                size += len(piece)
                if size > limit:
                    raise TooLarge
                pieces.append(piece)
    except TimeoutError:
        raise TooSlow from None
    except ClientDisconnect:
        raise Problem(400, "The connection ended inside the body.") from None
    return b"".join(pieces)


async def value(request: Request, kind: type[T], limit: int) -> T:
    """The JSON body as a value of ``kind``. A ``Problem`` says what is wrong with it."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Problem(415, "Send the body as Content-Type: application/json.")
    try:
        body = await read(request, limit)
    except TooLarge:
        raise Problem(413, f"A body may have at most {limit} bytes.", {"Connection": "close"}) from None
    return convert(parse(body), kind)


def parse(body: bytes) -> dict[str, Any]:
    """One JSON object, UTF-8, without NaN and infinities."""
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
        found = _cleaned(found)
    except RecursionError:
        raise Problem(400, "The body is nested too deeply.") from None
    except ValueError as error:
        raise Problem(400, f"The body is not valid JSON: {error}.") from None
    if not isinstance(found, dict):
        raise Problem(400, "The body must be a JSON object.")
    return found


def convert(found: dict[str, Any], kind: type[T]) -> T:
    """A parsed object as a value of ``kind``."""
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise Problem(400, f"The body is not as expected: {error}.") from None


def _cleaned(found: Any) -> Any:
    if isinstance(found, str):
        return clean(found)
    if isinstance(found, list):
        return [_cleaned(item) for item in found]
    if isinstance(found, dict):
        return {clean(key): _cleaned(item) for key, item in found.items()}
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number
