"""A worker that kills itself with SIGKILL between commit and dispatch: the worst moment there is."""

import asyncio
import os
import signal
import sys

import msgspec
from demo_agent import tester

from torpor.wiring import Parts


class Dying:
    """Stands where effects would be performed."""

    def start(self, *_):
        """The slice is committed; nothing has been sent."""
        os.kill(os.getpid(), signal.SIGKILL)

    async def resume(self, *_):
        """Nothing is left over on a first run."""


async def main(store: str, lease: float, claim: float) -> None:
    """Run one slice; it does not survive it."""
    async with Parts(store, [tester], lease=lease, claim=claim) as parts:
        parts.kit = msgspec.structs.replace(parts.kit, dispatch=Dying())
        await parts.worker(1).run_once()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
