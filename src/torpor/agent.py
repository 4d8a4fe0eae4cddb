"""What a user defines: an agent, by name, instructions, model, tools, limits and tier."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torpor.core.definition import Limits
from torpor.core.errors import Refused
from torpor.core.tiers import TIERS

if TYPE_CHECKING:
    from torpor.ports import Model
    from torpor.tools.catalog import RapServer
    from torpor.tools.functions import FunctionTool

WAKES = ("all", "each")


class Agent:
    """An agent definition. It holds no state: threads are looked up by its name at each wake.

    ``model`` is ``provider:name`` or an object with the ``Model`` port. ``tools`` mixes functions (decorated
    with ``@tool`` or plain) and ``RapServer(url)``. ``tier``: ``realtime``, ``async`` or ``batch``. ``wake``:
    with several calls in one turn, ask the model again when ``all`` are settled, or at ``each`` result.
    ``settings`` are passed to the model (``temperature``, ``max_tokens``, …). Raises ``Refused``.
    """

    def __init__(
        self,
        name: str,
        *,
        model: "str | Model",
        instructions: str = "",
        tools: "Sequence[Callable[..., Any] | FunctionTool | RapServer]" = (),
        tier: str = "realtime",
        limits: Limits = Limits(),
        wake: str = "all",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        _check_name(name)
        _check_choice("tier", tier, tuple(TIERS))
        _check_choice("wake", wake, WAKES)
        _check_limits(limits)
        self.name = name
        self.model = model
        self.instructions = instructions
        self.tools = tuple(tools)
        self.tier = tier
        self.limits = limits
        self.wake = wake
        self.settings: dict[str, Any] = dict(settings or {})

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"


def _check_name(name: object) -> None:
    fits = isinstance(name, str) and 1 <= len(name) <= 100 and name.isprintable() and name == name.strip()
    if not fits:
        raise Refused(f"An agent's name is 1 to 100 printable characters, not {name!r}.")


def _check_choice(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise Refused(f"There is no {what} {value!r}. Known: {', '.join(known)}.")


def _check_limits(limits: Limits) -> None:
    for field in limits.__struct_fields__:
        value = getattr(limits, field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise Refused(f"The limit {field} must be a number above 0, not {value!r}.")
