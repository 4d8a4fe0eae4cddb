"""What must hold at the end of every run."""

from collections import Counter

from torpor.testing.weather.expected import check_histories
from torpor.testing.weather.laws import check_laws
from torpor.testing.weather.sky import Sky


async def check(weather: Sky) -> Counter[str]:
    """Raise ``AssertionError`` for what does not hold; gives what there was, by kind."""
    wrong = weather.record.wrong
    assert not wrong, "; ".join(wrong[:5])
    kinds: Counter[str] = Counter()
    for disk in weather.disks:
        kinds += await check_laws(weather, disk)
    check_histories(weather)
    return kinds
