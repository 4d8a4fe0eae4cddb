"""The record of one slice: what later reports of cost and waiting are computed from."""

from torpor.core.messages import Stored, Usage


class WaitSettled(Stored, frozen=True):
    """A wait that this slice saw settled: what it was, for how long, and how it ended."""

    id: str
    kind: str
    """``call``, ``sleep``, ``subscription``, ``choice``, ``form``, ``authorization`` or
    ``approval``."""
    opened_at: float
    settled_at: float
    outcome: str
    """``result``, ``error``, or the cause for which the runtime settled it."""
    released: bool = False
    """Its settling let this slice ask the model."""


class SliceRecord(Stored, frozen=True):
    """One slice. Times are seconds since the epoch; 0 where a step did not happen."""

    thread: str
    version: int
    """The version it read."""
    worker: str = ""
    woken_by: tuple[str, ...] = ()
    """Ids of the signals it absorbed."""
    ring_at: float = 0.0
    leased_at: float = 0.0
    loaded_at: float = 0.0
    model_from: float = 0.0
    first_byte: float = 0.0
    model_to: float = 0.0
    committed_at: float = 0.0
    ordinal: int = -1
    attempt: int = 0
    model: str = ""
    product: str = ""
    usage: Usage | None = None
    request_hash: str = ""
    definition: str = ""
    """Hash of the agent as it was: its instructions, model, settings and tools."""
    provider_ids: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    """Waits it opened: ids of calls."""
    settled: tuple[WaitSettled, ...] = ()
    yielded: str = ""
    """Why it ended: ``owed``, ``waiting``, ``idle``, ``parked``, ``failed``, ``conflict``, …"""
    error: str = ""
