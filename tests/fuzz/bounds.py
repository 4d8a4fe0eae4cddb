"""What every input of a fuzzer has to keep: only errors of ours, bounded work, bounded memory."""

import time
from collections.abc import Callable
from typing import NamedTuple

from torpor.core.errors import TorporError

Run = Callable[[bytes], None]

CPU_SECONDS = 5.0
"""Seconds of the processor that one input may take, on whatever machine."""
LARGEST = 8_192
"""Bytes of an input that a fuzzer makes up."""


class Target(NamedTuple):
    """One place that reads what others wrote.

    ``run`` takes any bytes, swallows the errors that are ours, and lets whatever else happens be seen.
    """

    name: str
    run: Run
    seeds: tuple[bytes, ...]


class Slow(AssertionError):
    """An input took more of the processor than any may."""


def checked(target: Target, data: bytes) -> None:
    """Run one input within its bounds. Whatever is raised is a finding."""
    began = time.process_time()
    target.run(data)
    took = time.process_time() - began
    if took > CPU_SECONDS:
        raise Slow(f"{target.name}: {took:.1f} s for {len(data)} bytes")


def ours(work: Callable[[], object]) -> bool:
    """Whether some work went through; False if it was refused by an error of ours."""
    try:
        work()
    except TorporError:
        return False
    return True


def fields(data: bytes, count: int) -> list[bytes]:
    """An input as so many fields, parted by zero bytes; those that are missing are empty."""
    parts = data.split(b"\x00", count - 1)
    return parts + [b""] * (count - len(parts))


def text(data: bytes) -> str:
    """Bytes as any text, lone surrogates included."""
    return (
        data.decode("utf-8", "surrogatepass") if _is_utf8(data) else data.decode("utf-8", "surrogateescape")
    )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True
