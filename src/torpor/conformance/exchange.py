"""One request and its answer, kept to be shown: bounded, and without credentials."""

from collections.abc import Mapping

import msgspec

SHOWN = 600
"""Characters of a body that are shown."""

_HEADERS = ("content-type", "location", "retry-after")


class Exchange(msgspec.Struct, frozen=True):
    """What went over the wire, as text that still has to be made harmless before a terminal sees it."""

    sent: str
    answered: str

    def __str__(self) -> str:
        return f"{self.sent}\n= {self.answered}"


def shown(body: bytes) -> str:
    """The beginning of a body."""
    text = body[: 4 * SHOWN].decode("utf-8", "replace")
    return text if len(text) <= SHOWN and len(body) <= 4 * SHOWN else f"{text[:SHOWN]} … ({len(body)} bytes)"


def headers_shown(headers: Mapping[str, str]) -> str:
    """The few headers that matter to the protocol."""
    told = [f"{name}: {headers[name][:100]}" for name in _HEADERS if name in headers]
    return f" [{'; '.join(told)}]" if told else ""
