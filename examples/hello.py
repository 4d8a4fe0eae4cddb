"""An agent with one function tool, in one process. Runs without any key: its model is scripted."""

import asyncio

from torpor import Agent, Runtime, tool
from torpor.models import ScriptedModel, call, say


@tool(repeat="safe")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


model = ScriptedModel([call("add", a=1, b=2), say("1 + 2 is 3.")])
adder = Agent("adder", model=model, instructions="Use the tools.", tools=[add])


async def main() -> None:
    async with Runtime("sqlite:///agents.db", agents=[adder]) as runtime:
        thread = await runtime.start("adder", "What is 1 + 2?")
        reply = await thread.reply(timeout=30)
        print(reply.text)


if __name__ == "__main__":
    asyncio.run(main())
