"""What may go wrong with a call to an MCP server."""

from torpor.core.errors import Unavailable


class Lost(Unavailable):
    """The connection or the process ended before the server had answered.

    ``sent``: whether the request may have reached the server, so that it may have had an effect.
    """

    def __init__(self, text: str, *, sent: bool, retry_after: float | None = None) -> None:
        super().__init__(text, retry_after=retry_after)
        self.sent = sent


class TimedOut(Unavailable):
    """A limit of time has passed; its text names it. The server was told that nobody waits any more."""


class TooLarge(Unavailable):
    """The server answered, but with more than is taken: what it did is done. Its text names the limit."""
