"""Subscriptions: confirmed first, and silent after their end."""

import time

from torpor.conformance.listening import Asked, Callback
from torpor.conformance.probe import Probe, lacking
from torpor.conformance.statuses import is_alive
from torpor.conformance.texts import texts

GRACE = 0.25
"""Seconds after a cancellation in which an event may still arrive that was under way."""


async def to_the_end(probe: Probe) -> None:
    """The confirmation comes first; nothing comes after a final event."""
    if lacking(probe, "subscribing", "56 57 61"):
        return
    asked = await _confirmed(probe)
    if asked is None:
        return
    named = any(asked.id in text or "subscription" in text.lower() for text in texts(asked.result))
    probe.ledger.judge("TS-57", named, "the confirmation names no subscription", *asked.shown)
    over = _final(asked) is not None
    if not over:
        await _alive(probe, asked, expected=True)
    await asked.until(lambda: _final(asked), probe.patience.result)
    final = _final(asked)
    if final is None:
        probe.ledger.unseen("TS-61", "no final event came in the time that was given")
        await probe.cancel(asked)
        return
    await asked.until(lambda: False, probe.patience.quiet)
    later = [one for one in _after(asked, final) if one.raw != final.raw]
    why = "something came after the final event"
    probe.ledger.judge("TS-61", not later, why, final.exchange, *(one.exchange for one in later))
    await _alive(probe, asked, expected=False)


async def cancelled(probe: Probe) -> None:
    """A cancelled subscription sends nothing more, not even what was to be repeated."""
    if lacking(probe, "subscribing", "62"):
        return
    asked = await _confirmed(probe, script=[200, 200])
    if asked is None:
        return
    asked.otherwise = 503
    flowing = await asked.until(lambda: asked.events, probe.patience.result)
    before = {one.raw for one in asked.events if one.body.get("final") is True}
    answer = await probe.cancel(asked)
    asked.otherwise = 200
    deadline = time.monotonic() + GRACE
    await asked.until(lambda: False, probe.patience.quiet)
    later = [one for one in asked.events if one.at > deadline and one.raw not in before]
    if later or flowing:
        why = "an event came after its subscription was cancelled"
        exchanges = (answer.exchange, *(one.exchange for one in later))
        probe.ledger.judge("TS-62", not later, why, *exchanges)
    else:
        probe.ledger.unseen("TS-62", "no event came that could be silenced")
    await _alive(probe, asked, expected=False)


async def _confirmed(probe: Probe, script: list[int] | None = None) -> Asked | None:
    asked = await probe.ask("subscribing", script=script or [])
    await asked.until(lambda: asked.callbacks, probe.patience.result)
    confirmed = bool(asked.callbacks) and asked.callbacks[0].body.get("subscription") is True
    confirmed = confirmed and asked.callbacks[0].type == "tool_result"
    why = "the first callback is no result with 'subscription': true" if asked.callbacks else "none came"
    probe.ledger.judge("TS-56", confirmed, why, *asked.shown)
    if confirmed:
        return asked
    await probe.cancel(asked)
    return None


async def _alive(probe: Probe, asked: Asked, *, expected: bool) -> None:
    told = await is_alive(probe, asked)
    if told is None:
        probe.ledger.unseen("TS-120", "it does not tell whether a call is alive")
    elif expected and _final(asked) is not None:
        return
    else:
        state = "active" if expected else "over"
        why = f"a subscription that is {state} is said to be {'alive' if told else 'not alive'}"
        probe.ledger.judge("TS-120", told is expected, why, *asked.shown)


def _final(asked: Asked) -> Callback | None:
    return next((one for one in asked.events if one.body.get("final") is True), None)


def _after(asked: Asked, final: Callback) -> list[Callback]:
    return asked.callbacks[asked.callbacks.index(final) + 1 :]


CHECKS = ((to_the_end, "56 57 59 60 61 120"), (cancelled, "56 62 120"))
