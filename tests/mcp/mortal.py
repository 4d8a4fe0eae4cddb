"""A runtime that may be killed: ``python -m tests.mcp.mortal FOLDER TOOL SECONDS`` calls a tool of the depot,
and ``FOLDER TOOL ARGUMENTS SERVER`` one of another server.

A second process of the same folder finds the thread there, and ends once its model has answered.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from torpor import Agent, McpServer, Runtime
from torpor.core.errors import Refused
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Script

DEPOT = Path(__file__).with_name("depot.py")
SOON = 90.0


def depot(folder: Path, **options: object) -> McpServer:
    command: Sequence[str] = [sys.executable, str(DEPOT), str(folder)]
    return McpServer("depot", command=command, **options)  # type: ignore[arg-type]


def script(tool: str, seconds: float) -> Script:
    return [call(tool, tag="once", seconds=seconds), lambda request: say(request.results[0].text)]


async def main(folder: Path, server: McpServer, script: Script) -> None:
    agent = Agent("clerk", model=ScriptedModel(script), tools=[server], approvals="never")
    store = f"sqlite:///{folder / 't.db'}"
    async with Runtime(store, agents=[agent], listen=None, claim=1.0, lease=0.5) as runtime:
        try:
            thread = await runtime.start("clerk", "go", thread="t")
        except Refused:
            thread = runtime.thread("t")
        (folder / "reply").write_text((await thread.reply(timeout=SOON)).text)


def given(folder: Path, tool: str, arguments: str, server: str = "") -> tuple[McpServer, Script]:
    """What the command line says: the depot, or another server and what it is given, as JSON."""
    if server:
        named = McpServer("everything", **json.loads(server))
        return named, [call(tool, **json.loads(arguments)), lambda request: say(request.results[0].text)]
    return depot(folder), script(tool, float(arguments))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *given(Path(sys.argv[1]), *sys.argv[2:])))
