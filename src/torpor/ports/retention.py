"""What may be forgotten of threads, and how they are taken away for good.

A thread that is deleted is gone at once, for every other verb; what its rows held is erased bit by bit, so
that nobody has to wait for a long history to be overwritten.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from torpor.ports.rows import Version
from torpor.ports.stores import Side, Store

BY_THREAD = ("said", "webhooks", "authorizations", "progress", "mcp-calls", "mcp-flows", "forwards", "moves")
"""Spaces of small values whose keys are a thread's id, or begin with it and a slash."""

NAMING = ("starts",)
"""Spaces whose values name a thread, in msgpack."""

DELETED = "deleted"
"""State of the row of a thread that is being erased. Only the verbs here ever meet it."""


class Retention(Protocol):
    """Deletion and forgetting. Every store of threads has it, beside ``Store`` and ``Side``."""

    async def closed(self, before: float, *, after: str = "", limit: int = 1000) -> list[str]:
        """Roots of trees with a thread that is closed or *moved*, and unchanged since an instant, by id.

        From the root after ``after`` on, at most ``limit``.
        """

    async def heirs(self, threads: Sequence[str]) -> dict[str, str]:
        """Threads that continue one of these as forks, each with the one that it continues.

        Only those whose ``source`` says so, and that are not among ``threads`` themselves.
        """

    async def delete(
        self,
        threads: Sequence[str],
        *,
        closed_before: float = 0.0,
        versions: Mapping[str, Version] | None = None,
    ) -> int:
        """Take threads away, all or none, and give how many were there.

        From then on no verb but ``deleted``, ``erase`` and ``footprint`` finds them: a slice under way cannot
        commit, what is posted is for nobody, no thread is born of them, and nobody else can have their ids
        before all is erased. ``Conflict`` if a thread that stays has one of them as its parent or its source;
        if one of ``versions`` is there at another version, or one that is ``AWAY`` (see ``core.moves``) is
        not named there; with ``closed_before`` also if one of them is neither closed nor *moved*, was changed
        since then, has an effect in its outbox, or is closed with a birth or report in its inbox.
        """

    async def deleted(self, limit: int = 1000) -> list[str]:
        """Threads that were deleted and are not erased yet."""

    async def orphans(self, before: float, limit: int = 1000) -> list[str]:
        """Ids that are no thread's, and under which something is kept since before an instant.

        Blobs, small values and, where the queue is in the same database, rings that nobody has taken.
        """

    async def erase(self, thread: str, limit: int = 1000) -> Mapping[str, int]:
        """Erase up to ``limit`` rows that are left of a thread; nothing is left once it gives nothing.

        Gives how many by kind: ``messages``, ``inbox``, ``absorbed``, ``outbox``, ``records``, ``blobs``,
        ``segments`` (packed messages and records),
        ``small`` (values of ``BY_THREAD``, ``NAMING`` and its views), ``rings`` where the queue is in the
        same database, and at last ``threads``. Where the store can, what stood there is overwritten. An id
        that is no thread's may have left blobs and small values. ``Refused`` for a thread that is there.
        """

    async def footprint(self, thread: str) -> Mapping[str, int]:
        """How much is kept under a thread's id, deleted or not, in the kinds of ``erase``.

        ``named``: rows of other threads that have it as parent, root or source. Kinds of which there is
        nothing do not appear.
        """

    async def forget_records(self, before: float) -> int:
        """Drop the records of slices that ended before an instant, but the last of each thread; how many."""

    async def pack(self, before: float, limit: int = 1000) -> int:
        """Make small what is kept of threads that were changed last before an instant, and owe no answer.

        At most ``limit`` at once; gives how many there were. Nothing else changes: whoever reads them finds
        what was there. A store that has its own ways does nothing.
        """

    async def scrub(self) -> None:
        """Leave no bytes of what was deleted in the store's files, as far as the store has a say in that.

        It may take long, and nobody can write meanwhile.
        """


class Backend(Store, Side, Retention, Protocol):
    """A store with all that belongs to it."""
