"""Where commands are served: by the server that runs on the store if one answers, else by the store."""

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol, Unpack

import msgspec

from torpor.core.errors import Refused
from torpor.core.record import SliceRecord
from torpor.ports import Asked, LiveEvent
from torpor.runtime.presence import Here, present
from torpor.runtime.questions import Question, Settled, Value
from torpor.runtime.replies import Entry
from torpor.runtime.threads import Receipt
from torpor.settings import Settings, shown_store, store_path
from torpor.web.shapes import Found, NewThread, Saying, Started, ThreadView

if TYPE_CHECKING:
    from torpor.wiring import Parts


class Desk(Protocol):
    """All that commands do to threads."""

    async def start(self, wanted: NewThread) -> Started:
        """Start a thread."""

    async def say(self, thread: str, saying: Saying, key: str = "") -> Receipt:
        """Speak to one."""

    async def waits(self, thread: str) -> list[Question]:
        """What people are asked for one."""

    async def answer(self, wait: str, value: Value, comment: str = "") -> Settled:
        """Answer a wait. ``Refused`` if there never was such a wait."""

    async def find(self, *, limit: int, **asked: Unpack[Asked]) -> list[ThreadView]:
        """List some."""

    async def fork(self, thread: str, at: int | None, key: str = "") -> Started:
        """Start one that continues another one's history up to a position."""

    async def get(self, thread: str) -> Found:
        """One of them, and what it waits for."""

    async def entries(self, thread: str, after: int = 0) -> list[Entry]:
        """Its messages after a position."""

    async def records(self, thread: str) -> list[SliceRecord]:
        """The records of its slices."""

    async def command(self, thread: str, word: str) -> None:
        """``stop``, ``nudge``, ``compact`` or ``close`` it."""

    def watch(self, thread: str, after: int) -> AsyncIterator[Entry | LiveEvent]:
        """Its messages after a position, then what comes, for ever."""


class Opened(msgspec.Struct, frozen=True, eq=False):
    """A desk, the parts it stands on, and the workers that run on the store."""

    desk: Desk
    parts: "Parts"
    workers: list[Here]
    server: str
    """The address of the server that answers; empty: none does."""
    now: float
    """When the workers were asked for, by the store's clock."""


@contextlib.asynccontextmanager
async def opened(settings: Settings, *, agents: bool = False, make: bool = False) -> AsyncIterator[Opened]:
    """The desk of a store. ``make``: a store that does not exist yet is made, else it is ``Refused``.

    ``agents``: where no server answers, those of the settings are loaded here, with their MCP servers.
    """
    from torpor.cli.direct import Direct
    from torpor.cli.remote import reach
    from torpor.wiring import open_parts

    check_there(settings, make=make)
    async with contextlib.AsyncExitStack() as stack:
        parts = await stack.enter_async_context(open_parts(settings.store, lease=settings.lease))
        remote = await reach(parts.side, settings)
        now = await parts.store.now()
        workers = await present(parts.side, now)
        if remote is not None:
            yield Opened(await stack.enter_async_context(remote), parts, workers, remote.url, now)
            return
        knowing = await stack.enter_async_context(open_parts(settings)) if agents else parts
        yield Opened(Direct(knowing.threads), parts, workers, "", now)


def check_there(
    settings: Settings, *, make: bool, hint: str = "`torpor new` and `torpor serve` make one."
) -> None:
    """Raise ``Refused`` for a store that other processes cannot share, or that is not there.

    ``make``: it may be made. ``hint``: how, otherwise.
    """
    from torpor.wiring import is_there

    if settings.store == "memory:":
        raise Refused(
            "memory: is within one process, where no command reaches it. Name a store that processes share: "
            "sqlite:///path, or postgresql://…"
        )
    if not make and not is_there(settings.store):
        raise Refused(f"There is no store {_named(settings.store)} yet. Is it another one? Else {hint}")


def _named(url: str) -> str:
    return str(store_path(url) or f"in the database {shown_store(url)}")
