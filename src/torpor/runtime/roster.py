"""Agents as the runtime needs them, without knowing where their tools come from."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from torpor.core.definition import Definition
from torpor.core.errors import Refused
from torpor.core.messages import Link, Part
from torpor.core.prompt import Fixed
from torpor.ports import Later, Model


class CallContext(msgspec.Struct, frozen=True):
    """What a function tool is told of the call it serves."""

    thread: str
    call: str
    agent: str = ""
    user_id: str = ""
    context: str = ""
    attempt: int = 1
    """Above 1: an earlier run of this call may have happened."""
    lineage: tuple[Link, ...] = ()
    """The histories of other threads that its own continues, which ``read_result`` may read."""
    name: str = ""
    """The tool's, as the model knows it."""
    server: str = ""
    """The address of its tool server; empty for a function."""
    root: str = ""
    """The first thread of its family."""
    repeat: str = "unsafe"
    at: float = 0.0
    """When the call was sent out."""
    vanished: bool = False
    """An earlier run ended without a word: its process died, or was away for long."""
    trace: str = ""


class FunctionResult(Protocol):
    """What a function tool gave, ready to be stored."""

    @property
    def parts(self) -> tuple[Part, ...]: ...
    @property
    def is_error(self) -> bool: ...
    @property
    def handle(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def cause(self) -> str:
        """Set where the function itself did not answer."""


class Verdict(msgspec.Struct, frozen=True):
    """A result in the runtime's own words, and its cause."""

    parts: tuple[Part, ...]
    cause: str
    is_error: bool = True
    handle: str = ""
    size: int = 0


class Function(Protocol):
    """A tool that runs in this process."""

    async def run(self, context: CallContext, arguments: dict[str, Any]) -> FunctionResult:
        """Run it; failures of the function itself are results, not exceptions."""


class Bridge(Protocol):
    """The way to tool servers whose calls are carried out in this process; one for all of them.

    A call is *resumable*: it is run again after its process has died, or at the instant of a ``Later``, and
    finds its way on from what the bridge has kept of it.
    """

    async def manifest(self, address: str, user: str = "") -> bytes:
        """A server's manifest for a user. ``Refused`` if it cannot be used, ``Unavailable`` if none came."""

    def has_changed(self, address: str, hash: str, user: str = "") -> bool:
        """Whether a server is known to have another manifest for a user now than the one of this hash."""

    async def has_begun(self, context: CallContext) -> bool:
        """Whether an earlier run may have reached the server."""

    async def run(self, context: CallContext, arguments: dict[str, Any]) -> FunctionResult | Later:
        """Carry a call on until its result, or until nothing has to run for it for a while."""

    async def forget(self, thread: str, call: str) -> None:
        """A call's result is stored: what was kept of it may go."""

    async def cancel(self, address: str, thread: str, call: str) -> None:
        """Tell a server, best effort, that a call is no longer wanted."""

    async def close_thread(self, thread: str) -> None:
        """A thread is closed: let go of what was held for it."""

    async def choose(self, thread: str, call: str, question: str, value: str) -> None:
        """A person has answered a question of a call: the place of a choice, or what it says in JSON."""

    async def close(self) -> None:
        """Let go of servers. Idempotent."""


class Member(Protocol):
    """One agent: its model, its tools, and how to assemble them for a thread."""

    name: str
    model: Model
    servers: tuple[str, ...]
    """Addresses of its tool servers: the base URL, or ``mcp:`` and a name."""
    bridged: frozenset[str]
    """Those whose calls are carried out in this process, by ``bridge``."""
    bridge: Bridge | None
    functions: Mapping[str, Function]
    tier: str
    window: int
    """Tokens that its model takes; 0: not known."""

    def definition(self, manifests: Mapping[str, bytes]) -> Definition:
        """The agent with the tools of these manifests; cheap when asked again for the same."""

    def problems(self, manifests: Mapping[str, bytes]) -> Sequence[str]:
        """What is wrong with its tools, in words: clashing names and the like."""


class Outfit(msgspec.Struct, frozen=True, eq=False):
    """A definition with what is the same in all its requests."""

    definition: Definition
    fixed: Fixed


OUTFITS = 256
"""Definitions whose fixed parts are remembered."""


class Roster:
    """The agents that this process knows, by name."""

    def __init__(self, members: Sequence[Member] = ()) -> None:
        self._members = {member.name: member for member in members}
        self._outfits: OrderedDict[int, Outfit] = OrderedDict()
        if len(self._members) < len(members):
            names = [member.name for member in members]
            double = next(name for name in names if names.count(name) > 1)
            raise Refused(f"Two agents are named {double!r}; each needs a name of its own.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all agents known here."""
        return tuple(self._members)

    def get(self, name: str) -> Member | None:
        """An agent by name, or None."""
        return self._members.get(name)

    def need(self, name: str) -> Member:
        """An agent by name. ``Refused`` names those that are known."""
        member = self._members.get(name)
        if member is None:
            raise Refused(f"No agent {name!r} is known here. Known: {', '.join(self._members) or 'none'}.")
        return member

    def outfit(self, definition: Definition) -> Outfit:
        """The definition with its fixed parts hashed, once per definition."""
        known = self._outfits.get(id(definition))
        if known is None or known.definition is not definition:
            known = self._outfits[id(definition)] = Outfit(definition, Fixed(definition))
            if len(self._outfits) > OUTFITS:
                self._outfits.popitem(last=False)
        return known
