"""The invariants of every run: what is kept is whole, nothing is left, and nobody sleeps for ever."""

from collections import Counter
from typing import Any

from torpor.core.codec import decode_head, decode_message, encode
from torpor.core.head import Head
from torpor.core.messages import Happened, Message, Noted, Result, Spawned
from torpor.core.signals import AnySignal, Due, kind_of
from torpor.core.thread import fold
from torpor.testing.weather.sky import Disk, Sky


async def check_laws(weather: Sky, disk: Disk) -> Counter[str]:
    """All of them, for all threads of a store; gives what there was, by kind."""
    kinds: Counter[str] = Counter()
    heads: dict[str, Head] = {}
    stranded = [row.thread for row, _ in await disk.store.stranded()]
    assert not stranded, f"{stranded} hold work that nobody rang for"
    for _, kept in sorted(disk.store._threads.items()):
        row = kept.row
        if row.state == "moved":
            continue
        messages = await history(disk, row.thread)
        head = decode_head(row.head, row.shape)
        assert head == fold(messages), f"the head of {row.thread} is not the fold of its messages"
        assert all(decode_message(encode(one)) == one for one in messages)
        heads[row.thread] = head
        kinds.update(_kind(one) for one in messages)
        for signal in await disk.store.inbox(row.thread):
            assert not is_news(row.state, signal), f"{signal.id} is left in the inbox of {row.thread}"
        left = await disk.store.outbox(row.thread)
        assert not left, f"{left} is left in the outbox of {row.thread}"
        check_events(row.thread, head, messages)
    for thread, head in heads.items():
        check_family(thread, head, heads)
        check_sleeper(thread, head)
    return kinds


def is_news(state: str, signal: AnySignal) -> bool:
    """Whether a signal in an inbox still has to be absorbed, apart from questions about what is open."""
    if state == "closed":
        return kind_of(signal) in ("born", "reported")
    return not isinstance(signal, Due) or signal.what != "status"


async def history(disk: Disk, thread: str) -> list[Message]:
    """All messages of a thread."""
    return [decode_message(message.body) for message in await disk.store.read(thread, 0, 1_000_000)]


def _kind(message: Message) -> str:
    if isinstance(message, Noted):
        return type(message.note).__name__
    if isinstance(message, Result) and message.cause:
        return f"for {message.cause}"
    what = getattr(message, "what", "")
    return f"{type(message).__name__} {what}".strip()


def check_family(thread: str, head: Head, heads: dict[str, Head]) -> None:
    """Who is whose child is told alike by both; nobody lives below what is closed; places are counted."""
    assert head.used == sum(child.places for child in head.children.values()), f"{thread} counts wrongly"
    for id in head.children:
        assert id in heads, f"the child {id} of {thread} is not there"
        assert heads[id].parent == thread, f"{id} is not the child of {thread}"
        assert heads[id].state != "closed", f"{thread} holds its closed child {id}"
    if head.parent and head.state != "closed" and head.purpose != "compaction":
        assert thread in heads[head.parent].children, f"{head.parent} does not know its child {thread}"
        assert heads[head.parent].state != "closed", f"{thread} lives below {head.parent}, which is closed"


def check_events(thread: str, head: Head, messages: list[Message]) -> None:
    """Each event was given to one child, or waits for a place."""
    given = [at for message in messages for at in _given(message)]
    assert len(given) == len(set(given)), f"an event of {thread} was given to two children"
    threaded = {at for at, one in enumerate(messages, 1) if isinstance(one, Happened) and one.threaded}
    waiting = {at for held in head.gathered.values() for at in held.positions}
    assert set(given) <= threaded
    assert waiting <= threaded - set(given)
    if head.state == "open":
        assert set(given) | waiting == threaded, f"an event of {thread} was given to nobody"


def _given(message: Any) -> tuple[int, ...]:
    note = message.note if isinstance(message, Noted) else None
    return note.events if isinstance(note, Spawned) else ()


def check_sleeper(thread: str, head: Head) -> None:
    """Whoever rests either waits for something that can come, or has told its parent how it ended."""
    if head.state != "open":
        return
    assert not head.owes or head.pending, f"{thread} owes an answer"
    assert not (head.queued and not head.busy), f"{thread} keeps words that it does not wait to say"
    active = [id for id, call in head.pending.items() if not call.passive]
    assert not active, f"{thread} waits for {active}, of which nothing will come"
    holds = head.pending or head.detached or head.subscriptions or head.children or head.gathered
    if head.purpose in ("child", "event") and not holds:
        assert head.heard, f"{thread} rests, and its parent was not told"
