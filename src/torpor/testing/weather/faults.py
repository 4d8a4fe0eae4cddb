"""What goes wrong, how often, and how often it really did."""

from collections import Counter
from collections.abc import Collection
from random import Random

FAULTS: dict[str, float] = {
    "crash at an await": 0.5,
    "crash before a durable action": 0.002,
    "crash after a durable action": 0.002,
    "crash during a start": 0.1,
    "stopped in an orderly way": 0.15,
    "paused": 0.25,
    "clock jumps forward": 0.2,
    "clock jumps backward": 0.1,
    "clocks differ": 0.5,
    "store slow": 0.03,
    "store away": 0.006,
    "store away, but committed": 0.006,
    "ring lost": 0.05,
    "lease given up early": 0.03,
    "lease lost early": 0.02,
    "request lost": 0.04,
    "answer lost": 0.04,
    "request doubled": 0.05,
    "request late": 0.1,
    "answer late": 0.05,
    "server away": 0.05,
    "server refuses": 0.02,
    "server dies": 0.04,
    "server slow": 0.2,
    "server never answers": 0.05,
    "server answers twice": 0.15,
    "server answers otherwise": 0.08,
    "server asks for what nobody knows": 0.05,
    "event doubled": 0.2,
    "events out of order": 0.2,
    "callback malformed": 0.03,
    "callback forged": 0.03,
    "live words lost": 0.2,
    "model busy": 0.06,
    "model names a time": 0.03,
    "model refuses: quota": 0.006,
    "model refuses: auth": 0.006,
    "model refuses: setup": 0.006,
    "model refuses: context": 0.02,
    "model refuses: content": 0.006,
    "model refuses: request": 0.006,
    "model broken": 0.004,
    "model raises": 0.004,
    "stream cut": 0.04,
    "stream stalls": 0.03,
    "stream slow": 0.2,
    "arguments malformed": 0.04,
    "function fails": 0.1,
    "function slow": 0.2,
    "person answers late": 0.3,
    "person answers twice": 0.2,
    "person answers never": 0.1,
    "person answers wrongly": 0.2,
    "person says it again": 0.2,
    "person stops": 0.3,
    "person interrupts": 0.3,
}
"""Kinds of faults with how likely each is where it could strike."""


STREAMS = {kind: place for place, kind in enumerate(FAULTS)}


class Faults:
    """The faults of one run. Kinds in ``without`` never strike.

    Each kind has lots of its own, drawn from ``seed``: without one kind, the others strike as before, as long
    as the run takes the same course.
    """

    def __init__(self, seed: int, without: Collection[str] = ()) -> None:
        self._seed = seed
        self._lots: dict[str, Random] = {}
        often = Random(seed)
        odds = {kind: least * often.choice((0.0, 0.5, 1.0, 1.0, 2.0)) for kind, least in FAULTS.items()}
        self._odds = {kind: 0.0 if kind in without else given for kind, given in odds.items()}
        self.struck: Counter[str] = Counter()
        self.calm = False
        """The weather has cleared: nothing strikes any more."""

    def strikes(self, kind: str) -> bool:
        """Whether a fault strikes here and now."""
        odds = self._odds[kind]
        if self.calm or not odds:
            return False
        lots = self._lots.get(kind)
        if lots is None:
            lots = self._lots[kind] = Random(self._seed * len(STREAMS) + STREAMS[kind])
        return lots.random() < odds

    def strike(self, kind: str) -> bool:
        """The same, for one that then has struck."""
        if not self.strikes(kind):
            return False
        self.struck[kind] += 1
        return True

    def count(self, kind: str) -> None:
        """One has really struck."""
        self.struck[kind] += 1
