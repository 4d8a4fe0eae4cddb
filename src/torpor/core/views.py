"""Views of a thread: what its tool servers show to people beside the conversation. No model sees them."""

from torpor.core.parts import Stored

PROGRESS = "x-progress"
"""The type of views that say how far a call has come."""


class View(Stored, frozen=True):
    """What was shown last in one place of a thread. ``content`` is JSON text of an object; empty: nothing."""

    type: str
    content: str = ""
    seq: int = 0
    """The number that its source gave it; 0 if it gave none."""
    at: float = 0.0
    server: str = ""
    """The tool server that sent it; empty where its call was over, so that nobody could tell."""


class Progress(Stored, frozen=True):
    """How far a call has come, as its tool server says. ``fraction``: of 1, below 0 if it does not say."""

    fraction: float = -1.0
    message: str = ""
    at: float = 0.0
    """When it was said; 0: nobody knows."""

    @property
    def words(self) -> str:
        """In words; empty if nothing was said."""
        share = f"{self.fraction:.0%} done" if self.fraction >= 0 else ""
        return ": ".join(part for part in (share, self.message) if part)


def views_space(thread: str) -> str:
    """The space in which the views of a thread are kept, by type."""
    return f"views/{thread}"


PROGRESS_SPACE = "progress"
"""The space in which the progress of calls is kept, by thread: a map by call."""
