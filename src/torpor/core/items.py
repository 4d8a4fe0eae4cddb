"""The items a model was shown, in order: hashed, weighed, and where they may be cut or folded.

They only ever grow at the end, but for two moments: a summary takes the place of those before a cut, and a
fold shows long results by their beginning.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import TypeVar

import msgspec

from torpor.core.messages import Call, Image, Part
from torpor.core.request import AnyItem, InjectedItem, InputItem, ResultsItem

DIGEST = 16
"""Bytes kept of a hash."""

HEAVY = 5_000
"""Bytes of an item above which it is looked through for images."""

IMAGE = 4_000
"""Bytes of text that an image counts as, about: models see it, not its letters."""

_encode = msgspec.msgpack.Encoder().encode


class Cut(msgspec.Struct, frozen=True, gc=False):
    """A position that a turn has answered: a summary may stand for all up to it."""

    position: int
    size: int
    """Bytes of all items before it."""
    calls: tuple[Call, ...] = ()
    """Calls shown before it whose results may come after it: ``Compacting.calls`` and ``Summary.calls``."""
    index: int = 0
    """How many items stand before it."""


class Long(msgspec.Struct, frozen=True):
    """A long result among the items, and how it is shown once folded."""

    position: int
    """Of the message; 0: before the thread's own history."""
    index: int
    """Of the item."""
    view: int
    """Of the result in the item."""
    folded: tuple[Part, ...]


class Items:
    """Shown items with their hash. All of it is read by others and changed here alone."""

    __slots__ = ("_hash", "cuts", "long", "shown", "size")

    def __init__(self) -> None:
        self.shown: list[AnyItem] = []
        # SHA-256, which processors do by themselves: a third of the time that blake2b takes.
        self._hash = sha256()
        self.size = 0
        """Bytes of all of them, about as a model is sent them; an image counts as ``IMAGE``."""
        self.cuts: list[Cut] = []
        self.long: list[Long] = []

    @property
    def digest(self) -> bytes:
        """Hash over all items."""
        return self._hash.digest()[:DIGEST]

    def copy(self) -> "Items":
        """An independent copy; the items themselves are shared."""
        copy = Items()
        copy.shown, copy.cuts, copy.long = self.shown.copy(), self.cuts.copy(), self.long.copy()
        copy._hash, copy.size = self._hash.copy(), self.size
        return copy

    def add(self, item: AnyItem) -> None:
        """Show one more item."""
        self.shown.append(item)
        body = _encode(item)
        self._hash.update(body)
        size = len(body)
        self.size += size if size < HEAVY else _weighed(item, size)

    def cut_here(self, position: int, calls: Iterable[Call]) -> None:
        """All up to a position is shown: once a turn has answered it, a summary may stand for it."""
        self.cuts.append(Cut(position, self.size, tuple(calls), len(self.shown)))

    def leave(self) -> None:
        """What follows is another thread's: all of this lies before its history."""
        self.cuts.clear()
        self.long = [msgspec.structs.replace(long, position=0) for long in self.long]

    def sum_up(self, summary: AnyItem, upto: int) -> None:
        """Put a summary in the place of all up to a position."""
        gone = max([cut.index for cut in self.cuts if cut.position <= upto], default=0)
        self.shown = [summary, *self.shown[gone:]]
        self.cuts = [_moved(cut, 1 - gone) for cut in self.cuts if cut.position > upto]
        self.long = [_moved(long, 1 - gone) for long in self.long if long.index >= gone]
        self._recount()

    def fold(self, upto: int) -> None:
        """Show long results up to a position by their beginning."""
        for long in self.long:
            if long.position <= upto:
                self.shown[long.index] = _folded(self.shown[long.index], long)
        self.long = [long for long in self.long if long.position > upto]
        self._recount()

    def saves(self, upto: int) -> int:
        """How many bytes folding up to a position would save."""
        folded: dict[int, AnyItem] = {}
        for long in self.long:
            if long.position <= upto:
                folded[long.index] = _folded(folded.get(long.index, self.shown[long.index]), long)
        return sum(weight(self.shown[index]) - weight(item) for index, item in folded.items())

    def _recount(self) -> None:
        self._hash, self.size = sha256(), 0
        items, self.shown, sizes = self.shown, [], [0]
        for item in items:
            self.add(item)
            sizes.append(self.size)
        self.cuts = [msgspec.structs.replace(cut, size=sizes[cut.index]) for cut in self.cuts]


Placed = TypeVar("Placed", Cut, Long)


def _moved(placed: Placed, by: int) -> Placed:
    return msgspec.structs.replace(placed, index=placed.index + by)


def weight(item: AnyItem) -> int:
    """Bytes of an item, about as a model is sent it."""
    return _weighed(item, len(_encode(item)))


def _weighed(item: AnyItem, size: int) -> int:
    return size - sum(max(0, len(part.data) - IMAGE) for part in _parts(item) if isinstance(part, Image))


def _parts(item: AnyItem) -> Sequence[Part]:
    if isinstance(item, ResultsItem):
        return [part for view in item.results for part in view.parts]
    return item.parts if isinstance(item, InputItem | InjectedItem) else ()


def _folded(item: AnyItem, long: Long) -> AnyItem:
    change = msgspec.structs.replace
    if not isinstance(item, ResultsItem):
        return change(item, parts=long.folded)
    views = list(item.results)
    views[long.view] = change(views[long.view], parts=long.folded)
    return ResultsItem(tuple(views))
