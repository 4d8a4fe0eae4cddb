"""Taking calls: acknowledged at once, checked, and each brought to its result."""

import asyncio

from torpor.conformance.listening import Asked
from torpor.conformance.probe import UNKNOWN, Call, Probe, lacking
from torpor.conformance.sampling import violations
from torpor.conformance.texts import is_error, sounds_wrong, texts

OVERTAKING = 0.1
"""Seconds by which a callback must be ahead of its acknowledgement to count as sent before it."""
MOST_BAD = 4
PARALLEL = 24
SHOWN = 80


async def quick_twice(probe: Probe) -> None:
    """A quick call: 200 at once, complete before the callback, and then a result."""
    if lacking(probe, "quick", "21 22"):
        asked = await probe.ask(Call(UNKNOWN))
        why = f"a call of an unknown operation: {_answered(asked)}"
        probe.ledger.judge("TS-01", asked.status not in (0, 404, 405), why, asked.exchange)
        return
    for _ in range(2):
        asked = await probe.ask("quick")
        why = f"a call at the manifest's endpoint: {_answered(asked)}"
        if not probe.ledger.judge("TS-01", asked.status == 200, why, asked.exchange):
            probe.ledger.broken("TS-21", why, asked.exchange)
            return
        _ack_in_time(probe, asked)
        came = await asked.settled(probe.patience.result)
        if not probe.ledger.judge("TS-37", came, "no result came for a call", *asked.shown):
            return
        early = bool(asked.callbacks) and asked.callbacks[0].at < asked.acked_at - OVERTAKING
        why = "a callback came before the acknowledgement was complete"
        probe.ledger.judge("TS-22", not early, why, *asked.shown)


async def long(probe: Probe) -> None:
    """A long call is acknowledged while it works."""
    if lacking(probe, "long", "21"):
        return
    asked = await probe.ask("long")
    if asked.status == 200:
        _ack_in_time(probe, asked)
    else:
        why = f"a long call: {_answered(asked)}"
        probe.ledger.broken("TS-21", why, asked.exchange)
    await probe.cancel(asked)


def _ack_in_time(probe: Probe, asked: Asked) -> None:
    fast = asked.ack_seconds <= probe.patience.ack
    why = f"the acknowledgement took {asked.ack_seconds:.1f} s"
    probe.ledger.judge("TS-21", fast, why, asked.exchange)


def _answered(asked: Asked) -> str:
    return f"it answered {asked.status}" if asked.status else "it gave no answer"


# ------------------------------------------------------------------ what cannot be done


async def unknown_operation(probe: Probe) -> None:
    """A call of a tool that is not (any more) there ends in an error result that names it."""
    asked = await probe.ask(Call(UNKNOWN, {"x": 1}))
    await _refused(probe, asked, "a call of an unknown operation")
    if not asked.result:
        probe.ledger.broken("TS-18", "a call of a tool that is not there gets no result", *asked.shown)
        probe.ledger.broken("TS-24", "a call of an unknown operation gets no result", *asked.shown)
        return
    probe.ledger.kept("TS-18")
    named = any(UNKNOWN in text for text in texts(asked.result)) or sounds_wrong(asked.result)
    probe.ledger.judge("TS-24", named, "an unknown operation is answered like a known one", *asked.shown)


async def bad_arguments(probe: Probe) -> None:
    """Arguments that do not conform end in an error result."""
    if lacking(probe, "quick", "25"):
        return
    quick = probe.calls["quick"]
    tool = probe.tool(quick.name)
    bad = violations(tool.schema, quick.arguments)[:MOST_BAD] if tool else []
    if not bad:
        probe.ledger.unseen("TS-25", f"the schema of {quick.name!r} allows anything")
    await asyncio.gather(*(_bad(probe, told, Call(quick.name, arguments)) for told, arguments in bad))
    asked = await probe.ask("quick", more={"arguments": "not an object"})
    if asked.status == 400:
        level = "SHOULD"
        why = "arguments that are no object are refused by status, though it could send a result"
        probe.ledger.broken("TS-23", why, asked.exchange, level=level)
        return
    await _refused(probe, asked, "a call whose arguments are no object")
    probe.ledger.judge("TS-25", not _is_plain(asked), "text was taken for arguments", *asked.shown)


async def _bad(probe: Probe, told: str, call: Call) -> None:
    asked = await probe.ask(call)
    what = f"a call of {call.name!r} {told[:SHOWN]}"
    await _refused(probe, asked, what)
    if asked.result:
        probe.ledger.judge("TS-25", not _is_plain(asked), f"{what} was carried out", *asked.shown)


def _is_plain(asked: Asked) -> bool:
    """A result that reads as if all had gone well."""
    return bool(asked.result) and not sounds_wrong(asked.result)


async def _refused(probe: Probe, asked: Asked, what: str) -> None:
    """A call that must fail is acknowledged all the same, and fails by a result."""
    ledger = probe.ledger
    acknowledged = asked.status == 200
    ledger.judge("TS-23", acknowledged, f"{what}: {_answered(asked)}", asked.exchange)
    came = await asked.settled(probe.patience.result if acknowledged else probe.patience.settle)
    if not came and not acknowledged:
        ledger.broken("TS-26", f"{what} is refused by status alone ({asked.status})", asked.exchange)
        return
    ledger.judge_all(("TS-26", "TS-37"), came, f"{what} gets no result", *asked.shown)
    failed = [one for one in asked.callbacks if one.type != "tool_result"]
    if not came and failed:
        ledger.broken("TS-38", f"{what} is answered by {failed[0].type!r}", *asked.shown)
    elif came and _is_plain(asked):
        ledger.unseen("TS-38", "no failure was seen")
    elif came:
        reason = isinstance(asked.result.get("text"), str)
        ledger.judge("TS-38", reason, "an error has no 'text'", *asked.shown)
        _prefixed(probe, asked)


def _prefixed(probe: Probe, asked: Asked) -> None:
    text = asked.result.get("text")
    if isinstance(text, str) and (is_error(asked.result) or sounds_wrong(asked.result)):
        why = "an error text does not begin with 'Error: '"
        probe.ledger.judge("TS-41", text.startswith("Error: "), why, *asked.shown)


# ------------------------------------------------------------------ many, and their ids


async def apart(probe: Probe) -> None:
    """Many calls at once: each result comes to its own URL, with its own ids."""
    if lacking(probe, "quick", "30"):
        return
    many = await asyncio.gather(*(probe.ask("quick") for _ in range(PARALLEL)))
    await asyncio.gather(*(asked.settled(probe.patience.result) for asked in many))
    lost = [asked for asked in many if not asked.results]
    if lost:
        why = f"{len(lost)} of {PARALLEL} calls at once got no result"
        probe.ledger.broken("TS-37", why, *lost[0].shown)
    mixed = [asked for asked in many for one in asked.callbacks if _is_foreign(asked, one.body, one.target)]
    shown = mixed[0].shown if mixed else ()
    why = "with many calls at once, a result came to another call's URL or with its ids"
    if len(lost) < PARALLEL:
        probe.ledger.judge("TS-30", not mixed, why, *shown)


def _is_foreign(asked: Asked, body: dict[str, object], target: str) -> bool:
    return target != asked.target or (body.get("id"), body.get("group_id")) != (asked.id, asked.thread)


async def provider_ids(probe: Probe) -> None:
    """``call_id`` comes back where it was given, and only there."""
    if lacking(probe, "quick", "35"):
        return
    with_one = await probe.ask("quick", call_id="fc_ünïque 22")
    without = await probe.ask("quick")
    wrong = await probe.ask(Call(UNKNOWN), call_id="fc_23")
    for asked in (with_one, without, wrong):
        if await asked.settled(probe.patience.result):
            echoed = asked.result.get("call_id")
            why = f"call_id {asked.call_id!r} came back as {str(echoed)[:SHOWN]!r}"
            probe.ledger.judge("TS-35", echoed == asked.call_id, why, *asked.shown)


ALONE = ((quick_twice, "01 21 22 32 33 34 36 37 39 40 44 45 46 47 52 88 90"), (long, "21"))
CHECKS = (
    (unknown_operation, "18 23 24 26 37 38 41 42 43"),
    (bad_arguments, "23 25 26 37 38 41 43"),
    (apart, "30 37"),
    (provider_ids, "35"),
)
