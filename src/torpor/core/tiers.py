"""Tiers as deadlines: how soon a slice must start and how long it may gather company."""

import msgspec


class Tier(msgspec.Struct, frozen=True):
    """Seconds after its news by which a slice must start, and for how long before that it may."""

    start_within: float
    window: float
    """A slice starts no earlier than this many seconds before its ``start_by``."""


TIERS = {
    "realtime": Tier(0.0, 0.0),
    "async": Tier(60.0, 5.0),
    "batch": Tier(86_400.0, 3_600.0),
}


def start_by(tier: str, at: float, asked: float = 0.0) -> float:
    """The latest instant for a slice to start for news of ``at``; an asked one counts if it is sooner."""
    limit = at + TIERS[tier].start_within
    return min(limit, asked) if asked else limit


def not_before(tier: str, starts_by: float) -> float:
    """The earliest instant for that slice: until then it gathers company."""
    return starts_by - TIERS[tier].window
