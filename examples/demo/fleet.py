"""The fleet's agents and their tool server: `torpor demo --fleet` runs them in many processes.

    python examples/demo/fleet.py

serves the tools and prints {"port": N}. Every effect leaves a line with its id in a file below FLEET_FOLDER,
so that effects can be counted from outside.
"""

import asyncio
import os
from pathlib import Path

from torpor import Agent, RapServer, ToolContext, tool
from torpor.models import ScriptedModel, call, say
from torpor.tools.server import ToolCall, ToolServer

FOLDER = Path(os.environ.get("FLEET_FOLDER", "."))
TOOLS = os.environ.get("FLEET_TOOLS", "http://127.0.0.1:1")
TOKEN = os.environ.get("FLEET_TOKEN")
PARCELS = 3
"""How many parcels an agent sends: two calls each."""
THINKING = float(os.environ.get("FLEET_THINKING", "0.1"))
"""Seconds that the model takes."""
WEIGHING = float(os.environ.get("FLEET_WEIGHING", "0.6"))
STAMPING = float(os.environ.get("FLEET_STAMPING", "0.2"))


def effect(kind: str, id: str) -> None:
    """Something happens in the world: a line is added, in one piece."""
    place = os.open(FOLDER / kind, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(place, f"{id} {os.getpid()}\n".encode())
    finally:
        os.close(place)


@tool(repeat="keyed")
async def stamp(parcel: int, context: ToolContext) -> str:
    """Stamp a parcel, once for each key."""
    await asyncio.sleep(STAMPING)
    effect("stamp", context.call)
    return f"stamped {parcel}"


def server(outbox: str | Path) -> ToolServer:
    """The tool server: it weighs parcels."""
    scales = ToolServer("scales", outbox=outbox, token=TOKEN)

    @scales.tool(idempotent=True)
    async def weigh(call: ToolCall, parcel: int) -> str:
        """Weigh a parcel."""
        await asyncio.sleep(WEIGHING)
        effect("weigh", call.id)
        return f"parcel {parcel} weighs {7 * parcel} g"

    return scales


def _asks(parcel: int):
    async def reply(_):
        await asyncio.sleep(THINKING)
        return [call("weigh", parcel=parcel), call("stamp", parcel=parcel)]

    return reply


async def _ends(_):
    await asyncio.sleep(THINKING)
    return say("All parcels are on their way.")


clerk = Agent(
    "clerk",
    model=ScriptedModel([*(_asks(parcel) for parcel in range(1, PARCELS + 1)), _ends]),
    instructions="You send parcels.",
    tools=[stamp, RapServer(TOOLS, token=TOKEN)],
)

if __name__ == "__main__":
    server(FOLDER / "scales.outbox.db").run(announce=True)
