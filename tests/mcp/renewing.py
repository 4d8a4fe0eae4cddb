"""A process that uses a token all the time and prints what it was told: ``renewing.py STORE URL SECONDS``."""

import asyncio
import sys
import time
from collections import Counter

import httpx2

from torpor.clock import SystemClock
from torpor.stores.sqlite import Database, SqliteStore
from torpor.tools.bridged import McpServer
from torpor.tools.mcp.authorization import Authorizations
from torpor.tools.tokens import Keys


async def place() -> str:
    return "http://127.0.0.1:1"


async def main(url: str, resource: str, seconds: float) -> None:
    clock = SystemClock()
    store = SqliteStore(Database.open(url, clock=clock))
    keys = await Keys.open(store)
    here = await Authorizations.open(store, keys, clock, place)
    auth = here.auth(McpServer("files", url=resource), "ann")
    told: Counter[str] = Counter()
    async with httpx2.AsyncClient(auth=auth) as client:
        print("ready", flush=True)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            asked = [client.post(resource, json={}) for _ in range(4)]
            for found in await asyncio.gather(*asked, return_exceptions=True):
                told[str(found.status_code) if isinstance(found, httpx2.Response) else repr(found)] += 1
            await asyncio.sleep(0.01)
    print(dict(told), flush=True)
    await here.close()
    await store.close()


asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
