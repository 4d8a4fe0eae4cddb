"""Credentials: nobody without the right one is served."""

from typing import Any

from torpor.conformance.caller import Answer
from torpor.conformance.discovery import is_https, is_local
from torpor.conformance.listening import Asked
from torpor.conformance.probe import CANCEL, CLOSE, STATUS, Probe
from torpor.conformance.statuses import is_alive

NOTICES = {"TS-98": CLOSE, "TS-108": CANCEL, "TS-116": STATUS}
WRONG = "not-the-right-credential"
HERE = "it listens on loopback, and no token was given: with one, requests without it are tried"


async def guarded(probe: Probe) -> None:
    """Each kind of request, without a credential and with a wrong one."""
    if probe.caller.token is None:
        await _open_to_all(probe)
        return
    victim = await probe.ask("long") if "long" in probe.calls else None
    for token in (None, WRONG):
        await _invocation(probe, token)
        for row, path in NOTICES.items():
            answer = await _notice(probe, path, victim, token)
            if answer.status == 404:
                probe.ledger.unseen(row, f"it does not serve {path}")
            else:
                _judge(probe, row, answer, "no" if token is None else "a wrong")
    if victim is not None:
        if victim.status == 200 and not victim.callbacks and await is_alive(probe, victim) is False:
            why = "a cancellation without a credential ended the call"
            probe.ledger.broken("TS-108", why, *victim.shown)
        await probe.cancel(victim)


async def _notice(probe: Probe, path: str, victim: Asked | None, token: Any) -> Answer:
    thread = victim.thread if victim and path != CLOSE else probe.stub.thread()
    members = {"thread_id": thread, "tool_call_id": victim.id if victim else "check-never-asked"}
    return await probe.caller.post(path, members, token=token)


async def _invocation(probe: Probe, token: Any) -> None:
    asked = probe.stub.expect()
    members = {
        "operation": probe.tools[0].name,
        "arguments": {"x-never-heard-of": 1},
        "id": asked.id,
        "callback_url": asked.url,
        "group_id": asked.thread,
    }
    answer = await probe.send(asked, members, token=token)
    _judge(probe, "TS-55", answer, "no" if token is None else "a wrong")
    asked.cancelled = True


def _judge(probe: Probe, row: str, answer: Answer, what: str) -> None:
    why = f"with {what} credential, {answer.told}"
    probe.ledger.judge(row, answer.status in (401, 403), why, answer.exchange)


async def _open_to_all(probe: Probe) -> None:
    if is_local(probe.caller.url):
        for row in (*NOTICES, "TS-55"):
            probe.ledger.unseen(row, HERE)
        return
    if not is_https(probe.caller.url):
        probe.ledger.broken("TS-55", "it is reached from other machines by plain http")
    for row, path in NOTICES.items():
        answer = await _notice(probe, path, None, None)
        if answer.status != 404:
            _judge(probe, row, answer, "no")


CHECKS = ((guarded, "55 98 108 116"),)
