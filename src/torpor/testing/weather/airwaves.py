"""What live events of one process take to reach others: words that may be lost or late."""

from collections.abc import Callable, Sequence

from torpor.testing.weather.sky import Sky, Up


class Airwaves:
    """The ``Wire`` of ``SharedLive``, in one process."""

    def __init__(self, process: Up) -> None:
        self._process = process
        self._weather = process.weather
        self._told: Callable[[str], None] | None = None

    def start(self, told: Callable[[str], None]) -> None:
        """Begin to listen."""
        if self._told is None:
            self._told = told
            self._weather.listening.append((self._process.place, told))

    async def tell(self, words: Sequence[str]) -> None:
        """Tell all who listen."""
        weather = self._weather
        if weather.faults.strike("live words lost"):
            return
        weather.later(weather.random.random() * 0.2, _tell(weather, words))

    async def close(self) -> None:
        """Listen no more."""


async def _tell(weather: Sky, words: Sequence[str]) -> None:
    for place, told in list(weather.listening):
        if not place.dead:
            place.context.copy().run(_each, told, words)


def _each(told: Callable[[str], None], words: Sequence[str]) -> None:
    for word in words:
        told(word)
