"""A tool server answers when nobody is there any more; the next runtime takes up what it says.

The tool server and the receiver of callbacks stay; workers come and go. In production these are three
processes: the tool server, `torpor serve --workers 0`, and `torpor worker`.
"""

import asyncio
import tempfile
from pathlib import Path

from torpor import Agent, RapServer, Runtime
from torpor.models import ScriptedModel, call, say
from torpor.tools.server import ToolServer

depot = ToolServer("depot", outbox=":memory:")
truck = asyncio.Event()


@depot.tool(long_running=True, read_only=True)
async def wait_for_parcel(place: str) -> str:
    """Answer once the parcel has come."""
    await truck.wait()
    return f"the parcel has arrived at the {place} depot"


def report(request):
    """What a model would make of the tool's answer."""
    return say(request.results[0].text.capitalize() + ".")


async def main() -> None:
    """Ask, let the worker end, let the parcel come, and let another worker report it."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'parcels.db'}"
        async with depot.listening() as url, Runtime(store, workers=0) as receiver:
            script = ScriptedModel([call("wait_for_parcel", place="north"), report])
            clerk = Agent("clerk", model=script, tools=[RapServer(url)])
            async with Runtime(store, agents=[clerk], listen=None) as worker:
                thread = await worker.start("clerk", "Tell me when the parcel is there.")
                await asked(thread)
            print((await receiver.thread(thread.id).explain()).text)
            truck.set()
            async with Runtime(store, agents=[clerk], listen=None) as worker:
                print((await worker.thread(thread.id).reply(timeout=30)).text)


async def asked(thread) -> None:
    """Wait until the tool server has the call."""
    async for event in thread.events():
        if event.kind == "turn":
            return


if __name__ == "__main__":
    asyncio.run(main())
