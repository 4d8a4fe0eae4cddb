"""The order of the tiers."""

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
