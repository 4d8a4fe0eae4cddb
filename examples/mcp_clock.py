"""An MCP server with one tool, and an agent that calls it. Runs without any key: its model is scripted."""

import asyncio
import sys

from torpor import Agent, McpServer, Runtime
from torpor.models import ScriptedModel, call, say

TIMES = {"Lisbon": "noon", "Tokyo": "nine in the evening"}


def serve() -> None:
    """The server: any program that speaks MCP would do, written in whatever language."""
    from mcp.server.mcpserver import MCPServer
    from mcp_types import ToolAnnotations

    server = MCPServer("clock")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def time_in(city: str) -> str:
        """Tell the time in a city."""
        return TIMES.get(city, "I do not know that city")

    server.run()


clock = McpServer("clock", command=[sys.executable, __file__, "serve"])
model = ScriptedModel(
    lambda request: (
        say(f"In Tokyo it is {request.results[0].text}.")
        if request.results
        else call("time_in", city="Tokyo")
    )
)
traveller = Agent("traveller", model=model, tools=[clock])


async def main() -> None:
    async with Runtime("sqlite:///agents.db", agents=[traveller]) as runtime:
        thread = await runtime.start("traveller", "What time is it in Tokyo?")
        reply = await thread.reply(timeout=60)
        print(reply.text)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(main())
