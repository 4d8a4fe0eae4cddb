"""An agent that sleeps for hours. Its runtime ends meanwhile; a person wakes it through another one.

What is left between the two runtimes is one SQLite file.
"""

import asyncio
import tempfile
from pathlib import Path

from torpor import Agent, Runtime, tool
from torpor.models import ScriptedModel, call, say


@tool(repeat="safe")
def lights_off() -> str:
    """Switch all lights off. Doing it twice is the same as doing it once."""
    return "all lights are off"


script = [
    [say("I sleep until morning."), call("sleep", seconds=8 * 3600)],
    call("lights_off"),
    say("Good morning. The lights are off."),
]
watch = Agent("watch", model=ScriptedModel(script), instructions="Watch the house.", tools=[lights_off])


async def evening(store: str) -> str:
    """Start the thread; it falls asleep, and the runtime ends."""
    async with Runtime(store, agents=[watch]) as runtime:
        thread = await runtime.start("watch", "Good night.")
        print((await thread.reply(timeout=30)).text)
        print((await thread.explain()).text)
        return thread.id


async def morning(store: str, thread_id: str) -> None:
    """Another runtime, which knows nothing but the store: a person speaks before the sleep is over."""
    async with Runtime(store, agents=[watch]) as runtime:
        thread = runtime.thread(thread_id)
        await thread.send("I am up early.")
        print((await thread.reply(timeout=30)).text)


def main() -> None:
    """Both, over one file."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'house.db'}"
        thread_id = asyncio.run(evening(store))
        asyncio.run(morning(store, thread_id))


if __name__ == "__main__":
    main()
