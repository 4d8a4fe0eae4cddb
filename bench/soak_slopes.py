"""Whether something grows: the slope of what was sampled, with its standard error."""

import math
import statistics
from collections.abc import Sequence

import msgspec

BLOCKS, LEAST = 24, 12
"""Neighbouring samples are averaged into so many blocks, since they are not independent and blocks nearly
are; fewer than the least tell nothing."""
WARM = 0.25
"""The share of the beginning that is left out, at least: caches fill, what is kept for a while gathers."""
HOUR = 3_600.0
_T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 8: 2.31, 10: 2.23, 15: 2.13, 22: 2.07}
"""Two-sided 95 % of Student's t, by degrees of freedom."""


class Slope(msgspec.Struct, frozen=True):
    """Growth an hour of one thing."""

    name: str
    unit: str
    mean: float
    an_hour: float
    error: float
    """One standard error of the slope."""
    reach: float
    """Half of the 95 % confidence interval."""
    bound: float
    """Growth an hour that is called flat in any case."""

    @property
    def flat(self) -> bool:
        """It does not grow: the confidence interval reaches down to 0, or the growth is below the bound."""
        return not self.told or self.an_hour - self.reach <= 0 or self.an_hour < self.bound

    @property
    def told(self) -> bool:
        """There was enough to tell."""
        return math.isfinite(self.error)

    @property
    def verdict(self) -> str:
        """In a word."""
        if not self.told:
            return "too short to tell"
        return "flat" if self.flat else "GROWS"


def slope(
    name: str, unit: str, bound: float, points: Sequence[tuple[float, float]], *, warm: float = 600.0
) -> Slope:
    """Least squares over (seconds, value), without the beginning, which takes ``warm`` seconds at least."""
    blocks = _blocks(_warm(points, warm))
    if len(blocks) < LEAST:
        mean = statistics.fmean(value for _, value in points) if points else 0.0
        return Slope(name, unit, mean, 0.0, math.inf, math.inf, bound)
    xs, ys = [x / HOUR for x, _ in blocks], [y for _, y in blocks]
    middle, mean = statistics.fmean(xs), statistics.fmean(ys)
    spread = sum((x - middle) ** 2 for x in xs)
    steep = sum((x - middle) * (y - mean) for x, y in blocks_of(xs, ys)) / spread
    rest = sum((y - mean - steep * (x - middle)) ** 2 for x, y in blocks_of(xs, ys))
    error = math.sqrt(rest / (len(xs) - 2) / spread)
    return Slope(name, unit, mean, steep, error, error * _student(len(xs) - 2), bound)


def blocks_of(xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float]]:
    """Both beside each other."""
    return list(zip(xs, ys, strict=True))


def _warm(points: Sequence[tuple[float, float]], warm: float) -> Sequence[tuple[float, float]]:
    if not points:
        return points
    begin = points[0][0] + max(WARM * (points[-1][0] - points[0][0]), warm)
    return [point for point in points if point[0] >= begin]


def _blocks(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    size = max(1, len(points) // BLOCKS)
    cut = [points[start : start + size] for start in range(0, len(points) - size + 1, size)]
    return [(statistics.fmean(x for x, _ in block), statistics.fmean(y for _, y in block)) for block in cut]


def _student(freedom: int) -> float:
    return _T95[max(known for known in _T95 if known <= freedom)]
