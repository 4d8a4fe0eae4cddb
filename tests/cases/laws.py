"""What holds after every case, whatever happened in it."""

from collections import Counter
from typing import TYPE_CHECKING

from tests.runtime.shown import Asked, check_requests
from torpor.core.codec import decode_head, decode_message
from torpor.core.effects import Invoke
from torpor.core.head import WAIT_FOR, Head, OpenCall
from torpor.core.messages import Happened, Late, Message, Noted, Queued, Reported, Result, Said
from torpor.core.request import SummaryItem, item_text
from torpor.core.signals import AnySignal, Due, Finished, HappenedSignal, ReportedSignal, SaidSignal, Told
from torpor.core.thread import fold

if TYPE_CHECKING:
    from tests.cases.stage import Stage

NEWS = SaidSignal | Finished | HappenedSignal | ReportedSignal | Told
"""Signals with words in them."""
UNDONE = ("interrupted", "stopped", "closed", "stale", "denied", "expired", "undelivered")
"""Causes of results without which a call need not have taken effect."""


async def check_laws(stage: "Stage") -> None:
    """All of them."""
    for thread in stage.histories:
        await _check_thread(stage, thread)
    check_effects(stage)
    for thread in {one.attempt.thread for one in stage.asked}:
        asked = [one for one in stage.asked if one.attempt.thread == thread]
        for run in _unbroken(asked):
            check_requests(run, wires=True)
    assert not stage.unrung, "only a sweep found what was to be done"
    assert await stage.store.stranded() == []


async def _check_thread(stage: "Stage", thread: str) -> None:
    row = await stage.store.row(thread)
    assert row is not None
    stored = [decode_message(message.body) for message in await stage.store.read(thread, 0, 100_000)]
    assert stored == stage.histories[thread], "the store gives another history than was committed"
    head = decode_head(row.head, row.shape)
    assert head == fold(stored)
    await check_news(stage, thread, stored, head)
    await check_asleep(stage, thread, head)


async def check_news(stage: "Stage", thread: str, stored: list[Message], head: Head) -> None:
    """Each signal is in history exactly once, or it has a recorded reason."""
    traces: Counter[str] = Counter()
    for message in stored:
        source = message.note if isinstance(message, Noted) else message
        if isinstance(source, Said | Result | Happened | Late | Reported):
            traces[source.signal] += 1
    queued = {one.note.signal for one in stored if isinstance(one, Noted) and isinstance(one.note, Queued)}
    now = stage.clock.now()
    for signal in (one for one in stage.posted if one.thread == thread):
        how = await stage.store.outcome(thread, signal.id)
        assert how is not None, f"the store has forgotten {signal}"
        if how == "":
            assert signal.due > now or row_rests(head), f"not absorbed: {signal}"
        elif isinstance(signal, NEWS) and how in ("absorbed", "late"):
            assert traces[signal.id] == 1, f"{how}, {traces[signal.id]} times in history: {signal}"
        elif how == "queued":
            waits = any(text.signal == signal.id for text in head.queued)
            assert signal.id in queued
            assert traces[signal.id] == (0 if waits else 1) or head.state == "closed"


def row_rests(head: Head) -> bool:
    """What comes to a thread that is set aside, or whose model is to be asked later, may wait."""
    return head.state in ("parked", "stopped", "closed") or head.owes


async def check_asleep(stage: "Stage", thread: str, head: Head) -> None:
    """Whatever a thread waits for can come."""
    if head.state != "open":
        return
    inbox, outbox = await stage.store.inbox(thread), await stage.store.outbox(thread)
    sent = {row.effect.call for row in outbox if isinstance(row.effect, Invoke)} | set(stage.tools.urls)
    for id, call in {**head.pending, **head.detached}.items():
        assert call.given_up or _can_end(head, id, call, inbox, sent), f"nothing ends {id} ({call.name})"
    assert not (head.queued and not head.busy), "queued text waits for nothing"
    if head.owes and not head.pending and not head.blocked:
        row = await stage.store.row(thread)
        assert row is not None
        assert row.not_before > stage.clock.now(), "an answer is owed, and nobody will be asked"


def _can_end(head: Head, id: str, call: OpenCall, inbox: list[AnySignal], sent: set[str]) -> bool:
    if call.passive:
        sources = head.children.keys() | head.subscriptions.keys() | head.detached.keys()
        news = call.name == "sleep_until_event_or_input" or (call.name == WAIT_FOR and sources)
        return bool(news) or any(isinstance(one, Due) and one.call == id for one in inbox)
    if call.held:
        beside = [one for one in head.pending.values() if one.turn == call.turn and not one.held]
        return any(wait.call == id for wait in head.waits.values()) or bool(beside)
    return id in sent


def check_effects(stage: "Stage") -> None:
    """What was decided has happened, once; what may not be repeated ran at most once."""
    invokes = [effect for effect in stage.decided if isinstance(effect, Invoke)]
    assert len({effect.id for effect in invokes}) == len(invokes)
    results = [one for messages in stage.histories.values() for one in messages if isinstance(one, Result)]
    given_up = {one.call for one in results if one.cause in UNDONE}
    sent = {effect.call for effect in invokes if effect.server}
    done = Counter(stage.tools.done)
    assert set(done.values()) <= {1}
    assert set(done) <= sent
    for effect in invokes:
        ran = stage.works.by_call[effect.call]
        assert effect.repeat != "unsafe" or ran <= 1, f"{effect.name} ran {ran} times"
        unsent = effect.call in given_up or effect.id not in stage.delivered
        assert unsent or done[effect.call] or ran or _unknown(results, effect), f"{effect.name} never ran"
    assert set(stage.works.by_call) <= {
        effect.call for effect in stage.decided if isinstance(effect, Invoke)
    } | set(_inline(stage))


def _unbroken(asked: list[Asked]) -> list[list[Asked]]:
    """Requests in runs in which only the end grows: a summary or other tools begin a new one."""
    runs: list[list[Asked]] = []
    last: object = None
    for one in asked:
        request = one.request
        summaries = [item for item in request.items if isinstance(item, SummaryItem)]
        folded = [message for message in request.items if "read_result" in item_text(message)]
        begun = (summaries, len(folded), request.epoch)
        if not runs or begun != last:
            runs.append([])
        runs[-1].append(one)
        last = begun
    return runs


def _inline(stage: "Stage") -> list[str]:
    """Calls that ran within their slice."""
    from tests.cases.stage import calls_of

    return [call.id for messages in stage.histories.values() for call in calls_of(messages)]


def _unknown(results: list[Result], effect: Invoke) -> bool:
    return any(one.call == effect.call and one.cause for one in results)
