"""The order of the tiers, and choices of them and of agents as statements take them."""

from collections.abc import Sequence
from functools import lru_cache

from torpor.core.errors import Refused
from torpor.core.tiers import TIERS

TIER_NAMES = tuple(TIERS)
"""The most urgent first."""

_RANKS = {tier: place for place, tier in enumerate(TIER_NAMES)}


def rank(tier: str) -> int:
    """0 for the most urgent tier. ``Refused`` for a tier that there is none of."""
    place = _RANKS.get(tier)
    if place is None:
        raise Refused(f"There is no tier {tier!r}. Use one of {', '.join(TIER_NAMES)}.")
    return place


@lru_cache
def mask(tiers: tuple[str, ...] | None) -> int:
    """A bit for each tier of a choice; None: all."""
    return sum(1 << rank(tier) for tier in set(TIER_NAMES if tiers is None else tiers))


def fixed(names: Sequence[str] | None) -> tuple[str, ...] | None:
    """A choice that can be looked up."""
    return None if names is None else tuple(names)
