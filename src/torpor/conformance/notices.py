"""Closures and cancellations: always 200, at once, telling nothing; odd ids do no harm."""

from torpor.conformance.caller import Answer
from torpor.conformance.discovery import MANIFEST
from torpor.conformance.probe import CANCEL, CLOSE, Probe, alive, lacking
from torpor.conformance.statuses import ODD, is_alive

CLOSURES = "92 93 95 96 99"
CANCELLATIONS = "102 104 105 109"


async def closing(probe: Probe) -> None:
    """A thread that never was, one that was used, and both again."""
    used = await probe.ask("quick") if "quick" in probe.calls else probe.stub.expect()
    await used.settled(probe.patience.result if used.status == 200 else 0)
    unknown = await probe.close(probe.stub.thread())
    if not _is_served(probe, unknown, "/close_thread", CLOSURES):
        return
    known, repeated = await probe.close(used.thread), await probe.close(used.thread)
    for row, answer, what in (
        ("TS-96", unknown, "of a thread that it does not know"),
        ("TS-92", unknown, "of a thread that it does not know"),
        ("TS-92", known, "of a thread"),
        ("TS-95", repeated, "that came twice"),
    ):
        probe.ledger.judge(row, answer.status == 200, f"to a closure {what}, {answer.told}", answer.exchange)
    slow = max(unknown.seconds, known.seconds, repeated.seconds)
    why = f"the answer to a closure took {slow:.1f} s"
    probe.ledger.judge("TS-93", slow <= probe.patience.ack, why, known.exchange)
    _tells_nothing(probe, "TS-99", unknown, known)


async def cancelling(probe: Probe) -> None:
    """A call that never was, one that is over, and both again."""
    used = await probe.ask("quick") if "quick" in probe.calls else probe.stub.expect()
    await used.settled(probe.patience.result if used.status == 200 else 0)
    unknown = await probe.notice(CANCEL, probe.stub.thread(), "check-never-asked")
    if not _is_served(probe, unknown, "/cancel_tool_call", CANCELLATIONS):
        return
    over, repeated = await probe.cancel(used), await probe.cancel(used)
    for row, answer, what in (
        ("TS-102", unknown, "of a call that it does not know"),
        ("TS-104", over, "of a call that is over"),
        ("TS-102", over, "of a call that is over"),
        ("TS-105", repeated, "that came twice"),
    ):
        probe.ledger.judge(
            row, answer.status == 200, f"to a cancellation {what}, {answer.told}", answer.exchange
        )
    _tells_nothing(probe, "TS-109", unknown, over)


def _is_served(probe: Probe, answer: Answer, path: str, rows: str) -> bool:
    served = answer.status not in (0, 404, 405, 501)
    why = f"at {path}, {answer.told}"
    probe.ledger.judge("TS-04", served, why, answer.exchange)
    if not served:
        for number in rows.split():
            probe.ledger.unseen(f"TS-{number}", f"it does not serve {path}")
    return served


def _tells_nothing(probe: Probe, row: str, unknown: Answer, known: Answer) -> None:
    exchanges = (unknown.exchange, known.exchange)
    if probe.ledger.judge(
        row, unknown.body == known.body, "the answers differ with what it knows", *exchanges
    ):
        why = "the answer has a body"
        probe.ledger.judge(row, known.body == b"", why, known.exchange, level="SHOULD")


async def running(probe: Probe) -> None:
    """A call at work: others cannot end it, and its own cancellation is answered 200."""
    if lacking(probe, "long", "111"):
        return
    asked = await probe.ask("long")
    if asked.status != 200 or await is_alive(probe, asked) is not True:
        probe.ledger.unseen("TS-111", "it does not tell whether a call is alive")
    else:
        elsewhere = probe.stub.thread()
        foreign = await probe.cancel(asked, thread=elsewhere)
        closed = await probe.close(elsewhere)
        lives = alive(await probe.status(asked)) is True and not asked.results
        why = "a cancellation that names another thread ended the call"
        probe.ledger.judge("TS-111", lives, why, asked.exchange, foreign.exchange)
        why = "the closure of another thread ended the call"
        probe.ledger.judge("TS-96", lives, why, asked.exchange, closed.exchange)
    answer = await probe.cancel(asked)
    if answer.status not in (404, 405, 501):
        why = f"to a cancellation of a call at work, {answer.told}"
        probe.ledger.judge("TS-102", answer.status == 200, why, answer.exchange)


async def closed_before(probe: Probe) -> None:
    """A closure may come before a late call, which is served all the same."""
    if lacking(probe, "quick", "94"):
        return
    thread = probe.stub.thread()
    closed = await probe.close(thread)
    asked = await probe.ask("quick", thread=thread)
    came = await asked.settled(probe.patience.result)
    why = "a call that came after its thread's closure got no result"
    probe.ledger.judge("TS-94", came, why, closed.exchange, *asked.shown)


async def odd_ids(probe: Probe) -> None:
    """Paths, quotes, nothing, and much too long ids: refused or ignored, and the server lives on."""
    for odd in ODD:
        for row, answer in (
            ("TS-101", await probe.close(odd)),
            ("TS-111", await probe.notice(CANCEL, odd, odd)),
        ):
            why = f"told the id {odd[:40]!r}, {answer.told}"
            if answer.status in (404, 405):
                probe.ledger.unseen(row, why)
            else:
                probe.ledger.judge(row, 200 <= answer.status < 500, why, answer.exchange)
    nothing = await probe.caller.post(CLOSE, {})
    why = f"to a closure that names no thread, {nothing.told}"
    probe.ledger.judge("TS-101", 0 < nothing.status < 500, why, nothing.exchange)
    after = await probe.caller.get(MANIFEST)
    why = f"after odd ids, asked for its manifest, {after.told}"
    probe.ledger.judge("TS-101", after.status == 200, why, after.exchange)


ALONE = ((closing, "04 " + CLOSURES), (cancelling, "04 " + CANCELLATIONS))
CHECKS = ((running, "96 102 111"), (closed_before, "94"), (odd_ids, "101 111"))
