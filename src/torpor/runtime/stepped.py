"""What is given to a step, and what it tells."""

from collections.abc import Sequence

import msgspec

from torpor.core.codec import encode
from torpor.core.errors import Refused
from torpor.core.messages import By, Part, Text
from torpor.core.signals import SaidSignal, Signal
from torpor.runtime.given import thread_id, words


class Stepped(msgspec.Struct, frozen=True):
    """What became of a thread in a step."""

    thread: str
    outcome: str
    """``done``: nothing is due, owed or unperformed. ``again``: something is, from ``again_at`` on.
    ``failed``: it could not be worked on, for the reason in ``error``."""
    again_at: float = 0.0
    """The instant (seconds since the epoch) at which to step it again; 0: when there is news of it. Of one
    that is done, its next timer."""
    error: str = ""
    """Why it failed, or is parked; or what its last try ran into, which is tried again."""
    state: str = ""
    """The thread's: ``open``, ``parked``, ``stopped`` or ``closed``."""
    slices: int = 0
    """How many were run."""


class StepResult(msgspec.Struct, frozen=True):
    """What became of everything in a step."""

    items: tuple[Stepped, ...]
    """One for each piece of news, in the order given."""
    others: tuple[Stepped, ...] = ()
    """Threads that got word from those, such as children and parents."""

    @property
    def again_at(self) -> float:
        """The earliest instant at which some thread is to be stepped again; 0: none is."""
        return min((one.again_at for one in (*self.items, *self.others) if one.again_at), default=0.0)


def said(
    thread: str, text: str | Sequence[Part], *, id: str, mode: str = "steer", by: By = By("person")
) -> SaidSignal:
    """Words for a thread as a signal. ``id``: the platform's own, so that a redelivery counts once."""
    parts = words((Text(text),) if isinstance(text, str) else tuple(text))
    return SaidSignal(thread, f"said/{id}" if id else "", 0.0, by, parts=tuple(parts), mode=mode)


def thread_of(news: object) -> str:
    """The thread that a piece of news is for."""
    return news if isinstance(news, str) else str(getattr(news, "thread", ""))


def check(news: object) -> None:
    """Raise ``Refused`` for what cannot be taken."""
    if isinstance(news, str):
        thread_id(news)
        return
    if not isinstance(news, Signal):
        raise Refused(f"A step takes signals and thread ids, not {type(news).__name__}.")
    thread_id(news.thread)
    if not news.id:
        raise Refused("A signal without an id cannot be told from its own repetition. Give it an id.")
    try:
        encode(news)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise Refused(f"The signal {news.id!a:.80} cannot be stored: {error}.") from None
