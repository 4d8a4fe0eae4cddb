"""Status checks: an honest boolean and nothing else, and no effect."""

import asyncio

import msgspec

from torpor.conformance.caller import Answer
from torpor.conformance.listening import Asked
from torpor.conformance.probe import STATUS, Call, Probe, alive, lacking

ROWS = "112 113 114 115 117 118"
QUERIES = 10
ODD = ("../../etc/passwd", "a/b", "; rm -rf x", "' OR 1=1 --", "\u202ex", "x" * 5_000, "")


async def unknown(probe: Probe) -> None:
    """Nobody knows a call that never was."""
    answer = await probe.notice(STATUS, probe.stub.thread(), "check-never-asked")
    served = probe.ledger.judge(
        "TS-05", alive(answer) is not None, f"asked for a call's status, {answer.told}", answer.exchange
    )
    probe.has_status = served
    if answer.status in (404, 405) or (not served and answer.status != 200):
        for number in ROWS.split():
            probe.ledger.unseen(f"TS-{number}", "it does not serve /tool_call_status")
        return
    _shape(probe, answer)
    probe.ledger.judge(
        "TS-113", alive(answer) is not True, "it says that a call is alive which never was", answer.exchange
    )


def _shape(probe: Probe, answer: Answer) -> None:
    ledger = probe.ledger
    ledger.judge("TS-112", alive(answer) is not None, "the answer is no {'alive': bool}", answer.exchange)
    try:
        members = msgspec.json.decode(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    if isinstance(members, dict):
        more = sorted(set(members) - {"alive"})
        ledger.judge("TS-118", not more, f"the answer also has {more[:5]}", answer.exchange)


async def finished(probe: Probe) -> None:
    """A call whose result was taken is over: soon, it is not alive."""
    if lacking(probe, "quick", "113") or not await _serves(probe):
        return
    asked = await probe.ask("quick")
    if not await asked.settled(probe.patience.result):
        return
    answer = await probe.status(asked)
    for _ in range(20):
        if alive(answer) is not True:
            break
        await asked.until(lambda: False, probe.patience.settle / 20)
        answer = await probe.status(asked)
    _shape(probe, answer)
    why = "a call whose result was taken stays alive"
    probe.ledger.judge("TS-113", alive(answer) is not True, why, *asked.shown, answer.exchange)


async def without_effect(probe: Probe) -> None:
    """However often it is asked about, a call whose result was not taken yet still gets it delivered."""
    if lacking(probe, "quick", "114 115") or not await _serves(probe):
        return
    left_alone = await probe.ask("quick", script=[503])
    asked = await probe.ask("quick", script=[503])
    came = await asked.settled(probe.patience.result)
    answers = await asyncio.gather(*(probe.status(asked) for _ in range(QUERIES)))
    ledger, again = probe.ledger, probe.patience.retry
    if not ledger.judge("TS-114", came, "a call that was asked about got no result", *asked.shown):
        return
    repeated = await asked.until(lambda: len(asked.results) > 1, again)
    if repeated or await left_alone.until(lambda: len(left_alone.results) > 1, probe.patience.settle):
        why = "a result that was not taken is given up after a status check"
        ledger.judge_all(("TS-114", "TS-115"), repeated, why, *asked.shown, answers[-1].exchange)
    else:
        ledger.unseen("TS-115", "it does not repeat callbacks at all")


async def pairs(probe: Probe) -> None:
    """The two ids belong together; odd ones do no harm."""
    if not await _serves(probe):
        return
    for odd in ODD:
        answer = await probe.notice(STATUS, odd, odd)
        harmless = 200 <= answer.status < 500 and alive(answer) is not True
        why = f"asked about the ids {odd[:40]!r}, {answer.told}"
        probe.ledger.judge("TS-117", harmless, why, answer.exchange)
    if "long" not in probe.calls:
        return
    asked = await probe.ask("long")
    answer = await probe.status(asked)
    if asked.callbacks or asked.status != 200:
        return
    why = "a call at work is said not to be alive"
    probe.ledger.judge("TS-05", alive(answer) is True, why, *asked.shown, answer.exchange)
    wrong = await probe.status(asked, thread=probe.stub.thread())
    why = "a call is alive also under another thread's id"
    probe.ledger.judge("TS-117", alive(wrong) is not True, why, asked.exchange, wrong.exchange)
    await probe.cancel(asked)


async def _serves(probe: Probe) -> bool:
    if not probe.has_status:
        answer = await probe.notice(STATUS, probe.stub.thread(), "check-never-asked")
        probe.has_status = alive(answer) is not None
    return probe.has_status


async def is_alive(probe: Probe, asked: Asked) -> bool | None:
    """Whether a call is alive; None: nothing usable was said."""
    return alive(await probe.status(asked)) if await _serves(probe) else None


CHECKS = (
    (unknown, "05 " + ROWS),
    (finished, "112 113 118"),
    (without_effect, "114 115"),
    (pairs, "05 117"),
)
__all__ = ["CHECKS", "Call", "is_alive"]
