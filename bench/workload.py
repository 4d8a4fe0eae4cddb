"""The work of agent_scale: the same texts, to the byte, for the runtime and for the lean loops.

Per turn an agent gets a text of 111 to 116 characters, answers with 12 pieces of 94 bytes and a call of
``run_command``, gets 340 bytes from it, and answers with 12 pieces of 94 bytes again: two completions.
"""

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

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SAME = (
    "The suite ran to its end and each of the failures below belongs to a module that was last touched "
    "by one change. "
)


class Texts:
    """What is said, answered and printed. ``kind``: ``same`` text each time, or ``varied``."""

    def __init__(self, kind: str = "same") -> None:
        random = Random(SEED)  # noqa: S311 - the same in each run
        count = VARIANTS if kind == "varied" else 1
        self._answers = [_pieces(random if kind == "varied" else None) for _ in range(count)]
        self._outputs = [_output(random if kind == "varied" else None) for _ in range(count)]

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


def _pieces(random: Random | None) -> tuple[str, ...]:
    return tuple(_words(random, PIECE - 1) + " " for _ in range(PIECES))


def _output(random: Random | None) -> str:
    return "".join(_words(random, LINE - 1) + "\n" for _ in range(LINES))


def _words(random: Random | None, length: int) -> str:
    """Words of exactly that many characters, without blanks at their ends."""
    if random is None:
        return SAME[:length].strip().ljust(length, ".")
    text = ""
    while len(text) < length:
        text += "".join(random.choices(LETTERS, k=random.randint(2, 9))) + " "
    return text[: length - 1].rstrip().ljust(length, "x")
