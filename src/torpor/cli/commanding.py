"""What ``stop``, ``nudge``, ``compact`` and ``close`` share."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torpor.settings import Settings


async def command(settings: "Settings", thread: str, word: str) -> int:
    """Post a command to a thread, and say so."""
    from torpor.cli.desk import opened
    from torpor.cli.say import warn_if_alone
    from torpor.cli.screen import err, line

    async with opened(settings) as there:
        found = await there.desk.get(thread)
        await there.desk.command(thread, word)
        err().print(line((f"received ({word})", "dim")))
        warn_if_alone(there, found.agent)
    return 0
