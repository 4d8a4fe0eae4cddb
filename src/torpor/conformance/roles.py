"""Finding out what the tools of a server are good for: only those that read are tried unasked."""

import asyncio
from collections.abc import Mapping

import msgspec

from torpor.conformance.listening import Asked
from torpor.conformance.probe import ROLES, Call, Probe, Tool
from torpor.conformance.sampling import sample
from torpor.conformance.texts import is_error
from torpor.core.errors import Refused

MOST_TRIED = 8


async def learn(probe: Probe, given: Mapping[str, Call]) -> None:
    """Take the calls that were given, and try tools that are marked ``readOnly`` for the other roles."""
    for role, call in given.items():
        if role not in ROLES:
            raise Refused(f"There is no role {role!r}; known: {', '.join(ROLES)}.")
        if probe.tool(call.name) is None:
            known = ", ".join(tool.name for tool in probe.tools[:20])
            raise Refused(f"The server has no tool {call.name!r}; it has {known}.")
        probe.calls[role] = call
    wanted = {"quick", "long", "subscribing"} - set(probe.calls)
    tried = [(tool, arguments) for tool in probe.tools if (arguments := _harmless(tool)) is not None]
    if wanted:
        await asyncio.gather(*(_try(probe, tool, Call(tool.name, told)) for tool, told in tried[:MOST_TRIED]))
    for role, told in ROLES.items():
        call_ = probe.calls.get(role)
        if call_ is not None:
            shown = msgspec.json.encode(call_.arguments).decode()[:200]
            probe.ledger.notes.append(f"a call that {told}: {call_.name} {shown}")


def _harmless(tool: Tool) -> dict[str, object] | None:
    """Arguments for a tool that may be tried; None if it may not be, or none could be made."""
    if not tool.says("readOnly") or tool.says("destructive") or "requiresAuth" in tool.annotations:
        return None
    return sample(tool.schema)


async def _try(probe: Probe, tool: Tool, call: Call) -> None:
    asked = await probe.ask(call)
    if asked.status != 200:
        return
    await asked.until(lambda: asked.callbacks, probe.patience.settle)
    role = _role(asked, tool)
    if role:
        probe.calls.setdefault(role, call)
    if role != "quick":
        await probe.cancel(asked)


def _role(asked: Asked, tool: Tool) -> str:
    if not asked.callbacks:
        return "long"
    first = asked.callbacks[0]
    if first.type == "user_choice":
        return "choosing"
    if first.type == "oauth":
        return "authorizing"
    if first.type != "tool_result" or is_error(first.body):
        return ""
    if first.body.get("subscription") is True:
        return "subscribing"
    return "" if tool.says("longRunning") else "quick"
