"""A tool server as a process of its own, for tests that kill it: `served.py OUTBOX EFFECTS PORT`."""

import asyncio
import sys
import time
from pathlib import Path

from torpor.tools.server import Retry, ToolCall, ToolServer

OUTBOX, EFFECTS, PORT = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

server = ToolServer("served", outbox=OUTBOX, retry=Retry(first=0.05, longest=0.2), grace=0.5)


def note(text: str) -> None:
    with EFFECTS.open("a") as effects:
        effects.write(f"{text}\n")


@server.tool
async def quick(call: ToolCall) -> str:
    """Have an effect and answer."""
    note(f"quick {call.key}")
    return "done"


@server.tool
async def fragile(call: ToolCall) -> None:
    """Have an effect and hang."""
    note(f"fragile {call.key}")
    await asyncio.Event().wait()


@server.tool(idempotent=True)
async def keyed(call: ToolCall) -> str:
    """Have an effect and hang, but only the first time."""
    note(f"keyed {call.key}")
    if not call.restarted:
        await asyncio.Event().wait()
    return "done again"


@server.tool(restartable=True)
async def count(call: ToolCall) -> None:
    """Count in events, going on after a restart; at three it ends."""
    number = call.memory or 0
    await call.subscribe("Counting.")
    while number < 3:
        number += 1
        await call.event(str(number), final=number == 3, remember=number)
        if number == 2 and not call.restarted:
            note("counted")
            await asyncio.Event().wait()


@server.tool
async def watch(call: ToolCall) -> None:
    """Subscribe and hang."""
    await call.subscribe("Watching.")
    note("watching")
    await asyncio.Event().wait()


@server.tool(restartable=True)
async def pick(call: ToolCall) -> str:
    """Ask a person, and have an effect."""
    chosen = await call.choose("Which?", ["red", "blue"], default=1, expires=3600)
    note(f"picked {chosen.text}")
    return chosen.text


@server.tool
async def pick_once(call: ToolCall) -> str:
    """Ask a person, but not after a restart."""
    return (await call.choose("Which?", ["red", "blue"])).text


@server.tool
async def stubborn() -> None:
    """Never end, whatever is asked."""
    note("stubborn")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


@server.tool
def blocking() -> None:
    """Never end, in a thread."""
    note("blocking")
    time.sleep(600)


@server.tool
async def partial() -> str:
    """Give what there is when stopped."""
    note("partial")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "half"
    return "whole"


server.run(port=PORT)
