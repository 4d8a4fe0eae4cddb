"""The work of agent_scale: the same texts, to the byte, for the runtime and for the lean loops.

Per turn an agent gets a text of 111 to 116 characters, answers with 12 pieces of 94 bytes and a call of
``run_command``, gets 340 bytes from it, and answers with 12 pieces of 94 bytes again: two completions.
"""

from itertools import accumulate
from random import Random
from zlib import crc32

PIECES = 12
PIECE = 94
LINE = 68
LINES = 5
COMMAND = "cargo test --workspace"
ARGUMENTS = f'{{"command":"{COMMAND}"}}'
SEED = 20_261_129
VARIANTS = 499
"""How many different answers and results there are in varied text; a prime, so that no agent repeats soon."""

VOCABULARY = 3_000
"""Words of varied text. As in prose, few of them make up most of it: zstd makes a third of its bytes, or a
little more, of a history in varied text, and as much of these docs. No piece comes twice in a history."""
LETTERS = "etaoinshrdlcumwfgypbvkjxqz"
SAME = (
    "The suite ran to its end and each of the failures below belongs to a module that was last touched "
    "by one change. "
)


class Texts:
    """What is said, answered and printed. ``kind``: ``same`` text each time, or ``varied``."""

    def __init__(self, kind: str = "same") -> None:
        words = Words() if kind == "varied" else None
        count = VARIANTS if words else 1
        self._answers = [_pieces(words) for _ in range(count)]
        self._outputs = [_output(words) for _ in range(count)]

    def said(self, agent: int, turn: int) -> str:
        """What a person says to an agent at the start of a turn."""
        return (
            f"Turn {turn}: please have agent-{agent} run the whole test suite again, "
            "and order what fails by the modules they belong to."
        )

    def pieces(self, thread: str, ordinal: int) -> tuple[str, ...]:
        """The pieces of a thread's completion of that number."""
        place = int(thread.rpartition("-")[2]) * 41 + ordinal
        return self._answers[place % len(self._answers)]

    def output(self, call: str) -> str:
        """What the tool prints for a call."""
        return self._outputs[crc32(call.encode()) % len(self._outputs)]


class Words:
    """Draws words of a vocabulary, the n-th of them as often as words in prose are: in inverse ratio to n."""

    def __init__(self) -> None:
        self._random = Random(SEED)  # noqa: S311 - the same in each run
        letters = list(accumulate(1.0 / rank for rank in range(2, len(LETTERS) + 2)))
        self._words = [
            "".join(self._random.choices(LETTERS, cum_weights=letters, k=2 + min(rank // 9, 9)))
            for rank in (self._random.randint(1 + place // 4, 1 + place) for place in range(VOCABULARY))
        ]
        self._weights = list(accumulate(1.0 / rank for rank in range(3, VOCABULARY + 3)))

    def line(self, length: int) -> str:
        """Words of exactly that many characters in all, without blanks at their ends."""
        words = self._random.choices(self._words, cum_weights=self._weights, k=length // 2)
        return " ".join(words)[: length - 1].rstrip().ljust(length, ".")


def _pieces(words: Words | None) -> tuple[str, ...]:
    return tuple(_line(words, PIECE - 1) + " " for _ in range(PIECES))


def _output(words: Words | None) -> str:
    return "".join(_line(words, LINE - 1) + "\n" for _ in range(LINES))


def _line(words: Words | None, length: int) -> str:
    return words.line(length) if words else SAME[:length].strip().ljust(length, ".")
