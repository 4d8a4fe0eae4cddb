"""Models, tool servers, watchers and time."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import msgspec

from torpor.core.chunks import AnyChunk
from torpor.core.request import Attempt, Request


class Model(Protocol):
    """What produces turns. One object may serve many agents and threads at once.

    It may have a ``window``: how many tokens it takes. Without one, or with 0, that is not known, and history
    is summed up only once a request has been refused for its length, or when a person asks for that.
    """

    name: str
    """``provider:name``, as recorded."""

    def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        """Ask once, without retries. Raises ``Unavailable`` for what may pass, ``Refused`` for what will not.

        Closing the iterator cuts the completion.
        """


class Transport(Protocol):
    """The way to tool servers. ``context`` holds ``group_id``, ``user_id``, ``callback_url`` and the like."""

    async def discover(self, server: str) -> bytes:
        """The manifest's bytes, bounded. ``Refused`` if it is none; ``Unavailable`` if the server is away."""

    async def invoke(self, server: str, endpoint: str, body: Mapping[str, Any], key: str) -> None:
        """Hand over one invocation, once. ``Refused`` on 4xx, ``Unavailable`` on 5xx and no connection."""

    async def cancel(self, server: str, thread: str, call: str, trace: str = "") -> None:
        """Best effort, once; never raises for what the server does."""

    async def close_thread(self, server: str, thread: str, trace: str = "") -> None:
        """Best effort, once; never raises for what the server does."""

    async def choose(
        self, server: str, url: str, call: str, selected: int, key: str, trace: str = ""
    ) -> None:
        """Tell a server once what a person chose, at a URL of its own choice. Raises as ``invoke`` does."""

    async def status(self, server: str, thread: str, call: str, trace: str = "") -> str:
        """What a server says when it is asked whether it still works on a call, or holds its subscription.

        ``alive`` or ``dead`` in so many words; ``invalid``: it answered something else, or refused;
        ``missing``: it has nothing that could answer; ``unknown``: it failed, or does not let us ask
        now. ``Unavailable`` if it cannot be reached or does not answer.
        """

    async def migrate(self, server: str, session: str, destination: str, trace: str = "") -> None:
        """Have a server move all that it keeps of a session (a root thread's id) to another base URL.

        Returns once it says that this is done, which may take minutes; else ``Refused`` or ``Unavailable``
        with its reason.
        """

    async def close(self) -> None:
        """Let go of connections. Idempotent."""


class Later(msgspec.Struct, frozen=True):
    """A call has no result yet, and nothing has to run for it until it is looked at again."""

    at: float
    why: str = ""
    """What it waits for, in words."""


class LiveEvent(msgspec.Struct, frozen=True, gc=False):
    """Something to watch now.

    ``kind``: ``text``, ``reasoning``, ``call``, ``started``, ``dropped``, ``committed``, ``received`` or
    ``view``.
    """

    kind: str
    text: str = ""
    position: int = 0
    name: str = ""
    """Of a ``view``: its type; ``text`` is then its content as JSON text."""


class Live(Protocol):
    """What watchers are told meanwhile. Lossy by design: the truth is in the store."""

    def publish(self, thread: str, event: LiveEvent) -> None:
        """Tell whoever watches; never waits, never fails."""

    def watched(self, thread: str) -> bool:
        """Whether anybody watches the thread here."""

    def follow(self, thread: str) -> AsyncIterator[LiveEvent]:
        """What is published from now on. The buffer is bounded; the oldest are dropped."""


class Clock(Protocol):
    """Time. Everything that waits, waits through it."""

    def now(self) -> float:
        """Seconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""
