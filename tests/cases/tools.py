"""The tools that cases call: functions that count what they do, and a manifest for all others."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from torpor import ToolContext, tool
from torpor.tools.functions import FunctionTool


class Works:
    """What functions did to the world, across processes; each under its call's id."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        """By name, in order."""
        self.hanging = 0
        """Runs in the living process that never end."""
        self.by_call: Counter[str] = Counter()
        """By call."""
        self.keyed: set[str] = set()
        """Calls of keyed functions: however often such a one ran, it took effect once."""

    def effects(self, call: str) -> int:
        """How often a call took effect."""
        return min(1, self.by_call[call]) if call in self.keyed else self.by_call[call]


def is_function(told: Mapping[str, Any]) -> bool:
    """Whether a tool is a function of the process (``runs: here``)."""
    return told.get("runs") == "here"


def is_offered(told: Mapping[str, Any]) -> bool:
    """Whether the tool server offers it: all do that run neither here nor ``nowhere``."""
    return "runs" not in told


def function(name: str, told: Mapping[str, Any], works: Works) -> FunctionTool:
    """A function that counts its runs and gives ``gives`` (``{what}`` stands for its argument).

    ``repeat``, ``approval``, ``inline``, ``timeout`` are those of ``tool``; ``fails`` is the error it raises;
    with ``hangs`` it never ends.
    """

    async def run(context: ToolContext, what: str = "") -> str:
        works.runs.append(f"{name} {what}".strip())
        works.by_call[context.call] += 1
        if told.get("repeat") == "keyed":
            works.keyed.add(context.call)
        if told.get("hangs"):
            works.hanging += 1
            await asyncio.get_running_loop().create_future()
        if "fails" in told:
            raise RuntimeError(told["fails"])
        return str(told.get("gives", "done {what}")).replace("{what}", what)

    options: dict[str, Any] = {"repeat": told.get("repeat", "safe")}
    if told.get("timeout"):
        options["timeout"] = float(told["timeout"])
    if told.get("inline"):
        options["inline"] = True
    made = tool(name=name, description=f"Do {name}.", needs_approval=bool(told.get("approval")), **options)(
        run
    )
    assert isinstance(made, FunctionTool)
    return made


def manifest(names: Iterable[str], told: Mapping[str, Mapping[str, Any]], server: str) -> bytes:
    """A tool server's: plain tools that take whatever they are given, or as the case says."""
    tools = []
    for name in sorted(names):
        facts = told.get(name, {})
        annotations = {"idempotent": facts.get("repeat", "keyed") != "unsafe"}
        if facts.get("approval"):
            annotations["destructive"] = True
        schema = facts.get("schema", {"type": "object"})
        tools.append(
            {"name": name, "description": f"Do {name}.", "inputSchema": schema, "annotations": annotations}
        )
    wrapped = {"name": "cases", "endpoint": f"{server}/invoke", "tools": tools, "features": ["rap-ext/1"]}
    return json.dumps(wrapped).encode()
