"""What ends an exchange, found in a history as it grows."""

import msgspec

from torpor.core.messages import Message, Said, Turn, Usage, text_of


class Entry(msgspec.Struct, frozen=True):
    """One committed message with its position."""

    position: int
    message: Message


class Reply(msgspec.Struct, frozen=True):
    """What ended an exchange. ``usage`` is the exchange's sum since the text that was answered."""

    text: str
    usage: Usage
    position: int


class Search:
    """Looks for the end of the exchange in which a signal's words were answered."""

    def __init__(self, signal: str) -> None:
        self.signal = signal
        self.position = 0
        self.found = 0
        self.usage = Usage()

    def feed(self, entries: list[Entry]) -> Reply | None:
        """Go on with what has come; the reply, if it is among it."""
        for entry in entries:
            self.position = entry.position
            message = entry.message
            if isinstance(message, Said) and message.signal == self.signal:
                self.found = entry.position
            elif isinstance(message, Turn) and self.found:
                self.usage = _sum(self.usage, message.usage)
                if message.end and message.upto >= self.found:
                    return Reply(text_of(message.parts), self.usage, entry.position)
        return None


def _sum(before: Usage, more: Usage | None) -> Usage:
    if more is None:
        return before
    return Usage(
        before.input + more.input,
        before.cache_read + more.cache_read,
        before.cache_write + more.cache_write,
        before.output + more.output,
        before.reasoning + more.reasoning,
    )
