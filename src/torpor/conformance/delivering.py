"""Sending callbacks: again where that helps, not where it does not, and to the very URL that was given."""

import asyncio
from itertools import pairwise

from torpor.conformance.probe import Probe, lacking

REFUSALS = 3
GROWTH = 1.2
"""By what the last pause must be longer than the first."""

URLS = (
    "{base}?secret={secret}",
    "{base}/a/deep/path/{secret}/?q=1&q=2&x=%20y&empty=",
    "{base}/esc%2Faped/%C3%A9/{secret};v=1",
)


async def again(probe: Probe) -> None:
    """After 503, the same callback comes again, ever more slowly, until it is taken."""
    if lacking(probe, "quick", "48"):
        return
    asked = await probe.ask("quick", script=[503] * REFUSALS)
    patience = probe.patience
    if not await asked.settled(patience.result):
        return
    came = await asked.until(lambda: len(asked.results) > 1, patience.retry)
    came = came and await asked.until(lambda: len(asked.results) > REFUSALS, 8 * patience.retry)
    if not came:
        why = f"a callback answered 503 did not come again within {patience.retry:g} s"
        probe.ledger.broken("TS-48", why, *asked.shown)
        return
    tries = asked.results[: REFUSALS + 1]
    pauses = [later.at - earlier.at for earlier, later in pairwise(tries)]
    same = len({one.raw for one in tries}) == 1
    shown = ", ".join(f"{pause:.2f} s" for pause in pauses)
    why = f"the pauses were {shown}" if same else "the repeat was another message"
    probe.ledger.judge("TS-48", same and pauses[-1] > GROWTH * pauses[0], why, *asked.shown)


async def no_more(probe: Probe) -> None:
    """After 4xx, a callback does not come again."""
    if lacking(probe, "quick", "49"):
        return
    await asyncio.gather(*(_refuse(probe, status) for status in (404, 410, 400)))


async def _refuse(probe: Probe, status: int) -> None:
    asked = await probe.ask("quick", script=[status, status, status])
    if not await asked.settled(probe.patience.result):
        return
    again = await asked.until(lambda: len(asked.results) > 1, probe.patience.quiet)
    why = f"a callback answered {status} came again"
    probe.ledger.judge("TS-49", not again, why, *asked.shown)


async def opaque_urls(probe: Probe) -> None:
    """Callback URLs of odd forms are used as they are."""
    if lacking(probe, "quick", "50"):
        return
    await asyncio.gather(*(_odd_url(probe, url) for url in URLS))


async def _odd_url(probe: Probe, url: str) -> None:
    asked = await probe.ask("quick", url=url)
    if await asked.until(lambda: asked.callbacks, probe.patience.result):
        used = asked.callbacks[0].target
        why = f"the callback went to {used[:200]}, not to {asked.target}"
        probe.ledger.judge("TS-50", used == asked.target, why, *asked.shown)
    else:
        probe.ledger.broken("TS-50", f"no callback came to {asked.target}", asked.exchange)


CHECKS = ((again, "48"), (no_more, "49"), (opaque_urls, "50"))
