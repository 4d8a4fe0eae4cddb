"""A process that runs slices of a growing tree: ``python -m tests.end_to_end.growing STORE``."""

import asyncio
import sys
from typing import Any

from tests.runtime.cast import Cast, closes, shown, spawns, spawns_here
from torpor import Agent, Runtime, tool
from torpor.core.request import Request
from torpor.models import call, say
from torpor.runtime.sweep import sweep

CHILDREN = 6
LEASE, CLAIM = 0.4, 0.6
"""Seconds after which what a dead process held may be taken up."""


def number(request: Request) -> str:
    """Which of the children is asked, by its instructions."""
    return shown(request).rsplit("number ", 1)[1].split()[0]


def grower() -> Agent:
    @tool(repeat="safe")
    async def look(what: str) -> str:
        """Look at something; takes a moment."""
        await asyncio.sleep(0.3)
        return f"saw {what}"

    def kid(request: Request) -> Any:
        return spawns_here(f"as grandchild: number {number(request)}")(request)

    parts: dict[str, Any] = {
        "root": [[spawns(f"as kid: number {n} .") for n in range(CHILDREN)], *[say("Noted.")] * 40],
        "kid": [
            call("look", what="x"),
            kid,
            say("I wait."),
            lambda request: closes(f"kid {number(request)}")(request),
        ],
        "grandchild": [call("look", what="y"), lambda request: closes(f"deep {number(request)}")(request)],
    }
    return Agent("grower", model=Cast(**parts), tools=[look])


def opened(store: str, **options: Any) -> Runtime:
    return Runtime(store, agents=[grower()], listen=None, lease=LEASE, claim=CLAIM, **options)


async def work(store: str) -> None:
    async with opened(store, workers=4, synchronous="NORMAL") as runtime:
        print("working", flush=True)
        while True:
            await asyncio.sleep(0.1)
            await sweep(runtime.parts.store, runtime.parts.queue)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
