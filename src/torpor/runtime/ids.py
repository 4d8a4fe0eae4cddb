"""Names that nobody has used before, from one source of randomness handed in at the edge."""

from random import Random, SystemRandom


class Ids:
    """Mints ids of hexadecimal digits: four random bits each, all from one call.

    Seeded for simulations; otherwise seeded by the system.
    """

    def __init__(self, random: Random | None = None) -> None:
        self._random = random or Random(SystemRandom().getrandbits(128))  # noqa: S311 - seeded by the system

    def text(self, length: int) -> str:
        """``length`` random digits."""
        return f"{self._random.getrandbits(4 * length):0{length}x}"

    def hex(self, length: int) -> str:
        """``length`` random hexadecimal digits."""
        return f"{self._random.getrandbits(4 * length):0{length}x}"

    def thread(self) -> str:
        """A thread id: 20 characters."""
        return self.text(20)

    def token(self) -> str:
        """What a slice makes its call ids of: ``c``, 16 characters, ``-``."""
        return f"c{self.text(16)}-"

    def jitter(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()
