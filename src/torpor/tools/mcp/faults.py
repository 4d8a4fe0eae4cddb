"""What may go wrong with a call to an MCP server."""

from typing import Any

from torpor.core.errors import Refused, TorporError, Unavailable


class Lost(Unavailable):
    """The connection or the process ended before the server had answered.

    ``sent``: whether the request may have reached the server, so that it may have had an effect. If not, the
    same call on a new session does no harm.
    """

    def __init__(self, text: str, *, sent: bool, retry_after: float | None = None) -> None:
        super().__init__(text, retry_after=retry_after)
        self.sent = sent


class TimedOut(Unavailable):
    """A limit of time has passed; its text names it. The server was told that nobody waits any more."""


class TooLarge(Unavailable):
    """The server answered, but with more than is taken: what it did is done. Its text names the limit."""


class Declined(Refused):
    """The server answered with an error of the protocol, in its own words.

    ``code`` is JSON-RPC's; ``detail`` what came with it, as JSON.
    """

    def __init__(self, text: str, *, code: int = 0, detail: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.detail = detail


class SignInNeeded(TorporError):
    """The server answered 401 to a request that nobody had signed."""
