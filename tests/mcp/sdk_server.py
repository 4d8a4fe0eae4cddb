"""An MCP server of ours on the SDK, which speaks both the protocol of 2025 and that of 2026.

Run as ``python sdk_server.py``: over stdio. ``application()`` gives the same over HTTP.
"""

import asyncio
import os
from typing import Annotated, Any

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel
from starlette.applications import Starlette


class Sum(BaseModel):
    total: int


class Name(BaseModel):
    name: str


server = MCPServer("ours", version="1")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
async def pid() -> str:
    """The number of the process."""
    return str(os.getpid())


@server.tool()
async def slow(ctx: Context, steps: int, every: float) -> str:
    """Take a while, and tell how far it is."""
    for step in range(steps):
        await asyncio.sleep(every)
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    return "done"


async def name_of_user() -> Elicit[Name]:
    return Elicit("Your name?", Name)


@server.tool()
async def ask(answer: Annotated[ElicitationResult[Name], Resolve(name_of_user)]) -> str:
    """Ask the user for a name."""
    return answer.data.name if isinstance(answer, AcceptedElicitation) else answer.action


@server.tool()
async def fail() -> str:
    """Fail."""
    raise ValueError("it went wrong")


@server.tool()
async def large(size: int) -> str:
    """Give much text."""
    return "x" * size


@server.tool()
async def grow(ctx: Context, name: str) -> str:
    """Have one more tool from now on."""
    server.add_tool(pid, name=name, description="One more.")
    await ctx.notify_tools_changed()
    return "grown"


@server.resource("note://{name}", mime_type="text/plain")
async def note(name: str) -> str:
    """A note."""
    return f"note {name}"


@server.resource("fixed://one", mime_type="text/plain")
async def fixed() -> str:
    """A fixed one."""
    return "fixed"


@server.prompt()
async def greet(who: str) -> str:
    """Greet somebody."""
    return f"Greet {who}."


def application(**options: Any) -> Starlette:
    """The server over Streamable HTTP, at ``/mcp``."""
    return server.streamable_http_app(**options)


if __name__ == "__main__":
    server.run("stdio")
