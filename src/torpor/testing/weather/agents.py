"""The agent of a run: functions that are safe, keyed or unsafe, two tool servers, limits by lot."""

import asyncio
from typing import Any

from torpor.agent import Agent
from torpor.core.definition import Approvals, Events, Limits
from torpor.testing.weather.loop import HERE
from torpor.testing.weather.model import WINDOW, Model
from torpor.testing.weather.record import Ran
from torpor.testing.weather.servers import SERVERS
from torpor.testing.weather.sky import Sky
from torpor.tools.catalog import RapServer
from torpor.tools.functions import FunctionTool, ToolContext, tool

SECONDS = 30.0
"""What a function may take."""


async def _run(name: str, what: str, context: ToolContext) -> str:
    """What every function does: it is seen, takes its time, and gives words of its own."""
    weather: Sky = HERE.get().weather  # type: ignore[attr-defined]
    key = context.idempotency_key
    ran = Ran(key, name, what)
    record = weather.record
    record.ran[key].append(ran)
    decided = f"{context.thread}/{context.call}/invoke" in record.decided
    record.must(decided or name == "add", f"{name} ran for {context.call} before that was committed")
    weather.trace(HERE.get().name, "runs", name, context.call)
    slow = weather.faults.strike("function slow")
    await asyncio.sleep(weather.random.random() * (45.0 if slow else 1.0))
    if not record.paid[key] or name != "pay":
        record.paid[key] += 1
    if weather.faults.strike("function fails"):
        raise ValueError("It did not work.")
    ran.ended, ran.words = True, f"ran {name} {weather.number()}"
    return f"{ran.words}\n{LONG}" if name == "long" else ran.words


def _function(name: str, **options: Any) -> FunctionTool:
    async def function(what: str, context: ToolContext) -> str:
        return await _run(name, what, context)

    return tool(name=name, description=f"Does {name}.", **options)(function)


LONG = "A line of a long text.\n" * 3_000
FUNCTIONS = [
    _function("long", repeat="safe", timeout=SECONDS),
    _function("look", repeat="safe", timeout=SECONDS),
    _function("pay", repeat="keyed", timeout=SECONDS),
    _function("mail", repeat="unsafe", timeout=SECONDS),
    _function("slow", repeat="safe", timeout=SECONDS),
    _function("guarded", repeat="unsafe", timeout=SECONDS, needs_approval=True),
    _function("add", repeat="safe", inline=True, timeout=2.0),
]

for one in FUNCTIONS:
    one.spec  # noqa: B018 - compiled once for all runs


def agent_of(weather: Sky) -> Agent:
    """An agent whose limits are drawn."""
    random = weather.random
    return Agent(
        "worker",
        model=Model(weather, random.choice((0, WINDOW, WINDOW))),
        instructions="Do as you like.",
        tools=[*FUNCTIONS, *(RapServer(url, call_timeout=random.choice((0.0, 60.0))) for url in SERVERS)],
        tier=random.choice(("realtime", "realtime", "async")),
        limits=Limits(
            parallel=random.choice((1, 2, 8)),
            completions=random.choice((4, 100, 100)),
            loopbacks=random.choice((2, 20)),
            depth=random.choice((1, 3)),
            children=random.choice((2, 5)),
            events=random.choice((1, 3)),
            tries=random.choice((3, 12)),
        ),
        wake=random.choice(("all", "each")),
        events=Events(window=random.choice((0.0, 5.0)), most=random.choice((1, 3))),
        orphans=random.choice(("close", "adopt")),
        approvals=Approvals(
            random.choice(("destructive", "destructive", "never")),
            random.choice((0.0, 30.0)),
            random.choice(("deny", "approve")),
        ),
    )
