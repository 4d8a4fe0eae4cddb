"""Of the faults of a seed that fails, those that it needs."""

from collections.abc import Collection

from torpor.testing.weather.faults import FAULTS
from torpor.testing.weather.running import Violation, run


def fails(seed: int, without: Collection[str]) -> bool:
    """Whether a seed fails without some kinds of faults."""
    try:
        run(seed, without)
    except Violation:
        return True
    return False


def fewer(seed: int, without: Collection[str] = ()) -> list[str]:
    """Kinds of faults with which alone a seed still fails, if not always in the same way.

    Each run of fewer faults takes another course, so what is left may not be the least there is.
    """
    gone = set(without)
    size = len(FAULTS) // 2
    while size:
        left = [kind for kind in FAULTS if kind not in gone]
        for start in range(0, len(left), size):
            tried = gone | set(left[start : start + size])
            if tried != gone and fails(seed, tried):
                gone = tried
        size //= 2
    return [kind for kind in FAULTS if kind not in gone]
