"""What a user defines: an agent, by name, instructions, model, tools, limits and tier."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from torpor.core.definition import Approvals, Events, Limits
from torpor.core.errors import Refused
from torpor.core.text import clean
from torpor.core.tiers import TIERS
from torpor.models.names import check
from torpor.models.windows import check_window
from torpor.tools.bridged import McpServer
from torpor.tools.catalog import RESERVED, RapServer
from torpor.tools.functions import FunctionTool, tool

if TYPE_CHECKING:
    from torpor.ports import Model

WAKES = ("all", "each")
ORPHANS = ("close", "adopt")
VERIFIED = ("", "signature")
POLICIES = ("destructive", "never", "always")
MAY_BE_NONE = frozenset({"depth", "children", "threads"})
"""Limits that may be 0: no child threads."""


class Agent:
    """An agent definition. It holds no state: threads are looked up by its name at each wake.

    ``model`` is ``provider:name`` or an object with the ``Model`` port. ``tools`` mixes functions (decorated
    with ``@tool`` or plain), ``RapServer(url)`` and ``McpServer(...)``. ``tier``: ``realtime``, ``async`` or
    ``batch``. ``wake``: with several calls in one turn, ask the model again when ``all`` are settled, or at
    ``each`` result.
    ``events``: how events become child threads, and which are accepted. ``orphans``: what becomes of the
    children of a child that closes: ``close`` them too, or ``adopt`` by its own parent.
    ``approvals``: which calls wait for a person's approval: of ``destructive`` tools, ``never`` any,
    ``always`` all that are sent out, or ``Approvals`` with a time after which a default counts.
    ``settings`` are passed to the model (``temperature``, ``max_tokens``, …). ``window``: how many tokens the
    model takes, where the model object does not know (0: not known). Raises ``Refused``.
    """

    def __init__(
        self,
        name: str,
        *,
        model: "str | Model",
        instructions: str = "",
        tools: "Sequence[Callable[..., Any] | FunctionTool | RapServer | McpServer]" = (),
        tier: str = "realtime",
        limits: Limits = Limits(),
        wake: str = "all",
        settings: Mapping[str, Any] | None = None,
        window: int | None = None,
        events: Events = Events(),
        orphans: str = "close",
        approvals: str | Approvals = "destructive",
    ) -> None:
        _check_name(name)
        try:
            _check_model(model)
            _check_choice("tier", tier, tuple(TIERS))
            _check_choice("wake", wake, WAKES)
            _check_limits(limits)
            _check_events(events)
            _check_choice("policy for orphans", orphans, ORPHANS)
            self.approvals = _approvals(approvals)
            self.tools = _tools(tools)
            self.instructions = _instructions(instructions)
            self.settings = _settings(settings)
            self.window = None if window is None else check_window(window)
        except Refused as error:
            raise Refused(f"Agent {name!r}: {error}") from error.__cause__
        self.name = name
        self.model = model
        self.tier = tier
        self.limits = limits
        self.wake = wake
        self.events = events
        self.orphans = orphans

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"


def check_agents(agents: object) -> "tuple[Agent, ...]":
    """Agents as they are given to a runtime. ``Refused`` for anything else, and for two of one name."""
    if isinstance(agents, str | Agent) or not isinstance(agents, Sequence):
        raise Refused(f"agents must be a list such as [Agent(...)], not {_shown(agents)}.")
    for agent in agents:
        if not isinstance(agent, Agent):
            raise Refused(f"agents must hold objects of the class Agent, not {_shown(agent)}.")
    doubles = _doubles([agent.name for agent in agents])
    if doubles:
        raise Refused(f"Two agents are named {doubles[0]!r}; each needs a name of its own.")
    return tuple(agents)


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _doubles(names: Sequence[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _check_name(name: object) -> None:
    fits = isinstance(name, str) and 1 <= len(name) <= 100 and name.isprintable() and name == name.strip()
    if not fits:
        raise Refused(f"An agent's name is 1 to 100 printable characters, not {_shown(name)}.")


def _check_model(model: object) -> None:
    if isinstance(model, str):
        check(model)
        return
    named = isinstance(getattr(model, "name", None), str)
    if isinstance(model, type) or not named or not callable(getattr(model, "stream", None)):
        raise Refused(
            f"its model must be a text such as 'openai:gpt-5-mini', or an object with a name and a method "
            f"stream, such as ScriptedModel([...]), not {_shown(model)}."
        )


def _check_choice(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise Refused(f"There is no {what} {_shown(value)}. Known: {', '.join(known)}.")


def _check_limits(limits: object) -> None:
    if not isinstance(limits, Limits):
        raise Refused(f"limits must be Limits(...), not {_shown(limits)}.")
    for field in limits.__struct_fields__:
        value = getattr(limits, field)
        whole = field != "seconds"
        kinds = int if whole else int | float
        none = field in MAY_BE_NONE
        if not _is_number(value, kinds) or not (0 < value < math.inf or (none and value == 0)):
            kind = f"{'whole' if whole else 'finite'} number{', 0 or more' if none else ' above 0'}"
            raise Refused(f"The limit {field} must be a {kind}, not {_shown(value)}.")


def _is_number(value: object, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _check_events(events: object) -> None:
    if not isinstance(events, Events):
        raise Refused(f"events must be Events(...), not {_shown(events)}.")
    if not _is_number(events.window, int | float) or not 0 <= events.window < math.inf:
        raise Refused(
            f"The window of events must be a finite number, 0 or more, not {_shown(events.window)}."
        )
    if not _is_number(events.most, int) or events.most < 1:
        raise Refused(f"The most of events must be a whole number above 0, not {_shown(events.most)}.")
    _check_choice("verification of events", events.verified, VERIFIED)


def _approvals(given: object) -> Approvals:
    approvals = Approvals(given) if isinstance(given, str) else given
    if not isinstance(approvals, Approvals):
        raise Refused(f"approvals must be a policy or Approvals(...), not {_shown(given)}.")
    _check_choice("policy for approvals", approvals.policy, POLICIES)
    _check_choice("default for approvals", approvals.default, ("deny", "approve"))
    if not _is_number(approvals.seconds, int | float) or not 0 <= approvals.seconds < math.inf:
        raise Refused(
            f"The seconds of approvals must be a finite number, 0 or more, not {_shown(approvals.seconds)}."
        )
    return approvals


def _tools(given: object) -> "tuple[FunctionTool | RapServer | McpServer, ...]":
    lone = isinstance(given, str | bytes | Mapping | FunctionTool | RapServer | McpServer)
    if lone or not isinstance(given, Sequence):
        raise Refused(f"tools must be a list of functions and tool servers, not {_shown(given)}.")
    tools = tuple(one if isinstance(one, RapServer | McpServer) else _function(one) for one in given)
    names = [one.name for one in tools if isinstance(one, FunctionTool)]
    for name in names:
        if name in RESERVED:
            raise Refused(f"The name {name!r} is reserved for a built-in tool; name the function otherwise.")
    for name in _doubles(names):
        raise Refused(f"Two of its functions are named {name!r}; give one of them @tool(name=...).")
    for url in _doubles([one.url for one in tools if isinstance(one, RapServer)]):
        raise Refused(f"The tool server {url} is named twice.")
    for name in _doubles([one.name for one in tools if isinstance(one, McpServer)]):
        raise Refused(f"Two of its MCP servers are named {name!r}; give one of them another name.")
    return tools


def _function(given: object) -> FunctionTool:
    if isinstance(given, FunctionTool):
        return given
    if not callable(given) or isinstance(given, type):
        servers = "RapServer(url) or McpServer(command=[...])"
        raise Refused(f"{_shown(given)} is no tool: give a function, or a server such as {servers}.")
    try:
        return tool(given)
    except TypeError as error:
        raise Refused(f"{error}.") from error


def _instructions(given: object) -> str:
    if not isinstance(given, str):
        raise Refused(f"instructions must be text, not {_shown(given)}.")
    return clean(given)


def _settings(given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping | None):
        raise Refused(f"settings must be a dict such as {{'temperature': 0}}, not {_shown(given)}.")
    settings = dict(given or {})
    try:
        msgspec.json.encode(settings)
    except (TypeError, ValueError) as error:
        raise Refused(f"settings must have a JSON form: {error}.") from None
    return settings
