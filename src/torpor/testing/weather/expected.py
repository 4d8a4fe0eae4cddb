"""What histories may be, by what the outside saw and sent alone: a model of its own.

All that was taken is there exactly once, or its thread is closed, or set it aside visibly. All that is there
was sent. What had an effect was decided before, and as often as its kind allows.
"""

from collections import Counter, defaultdict

from torpor.core.codec import decode_message
from torpor.core.messages import (
    Call,
    Happened,
    Late,
    Message,
    Noted,
    Parked,
    Queued,
    Reported,
    Result,
    Said,
    Turn,
    text_of,
)
from torpor.testing.weather.record import Callback, Words
from torpor.testing.weather.sky import Sky

LEAVES_OPEN = frozenset({"unknown", "undelivered", "dead", "timeout"})
"""Causes of results after which one real result may still come."""
RUNS = 5
"""How often a function that may be repeated is started at most, apart from what other processes began."""


class Seen:
    """One thread's history, sorted by what can be compared."""

    def __init__(self, thread: str, messages: list[Message], state: str) -> None:
        self.thread = thread
        self.messages = messages
        self.closed = state == "closed"
        self.said = [one for one in messages if isinstance(one, Said)]
        self.turns = [one for one in messages if isinstance(one, Turn)]
        self.results: dict[str, list[Result]] = defaultdict(list)
        self.late: dict[str, list[Late]] = defaultdict(list)
        self.happened = [one for one in messages if isinstance(one, Happened)]
        notes = [one.note for one in messages if isinstance(one, Noted)]
        self.queued = [note for note in notes if isinstance(note, Queued)]
        self.aside = any(isinstance(note, Parked) and note.aside for note in notes)
        for one in messages:
            if isinstance(one, Result):
                self.results[one.call].append(one)
        for note in notes:
            if isinstance(note, Late):
                self.late[note.call].append(note)
        self.calls = {part.id: part for turn in self.turns for part in turn.parts if isinstance(part, Call)}


def seen_of(weather: Sky) -> dict[str, Seen]:
    """All histories as they are kept, but of what was erased: another thread may have its id since."""
    found, commands = {}, weather.record.commands
    for disk in weather.disks:
        for id, kept in sorted(disk.store._threads.items()):
            if kept.row.state != "moved" and "delete" not in commands.get(id, ()):
                found[id] = Seen(id, [decode_message(body) for body in kept.bodies], kept.row.state)
    return found


def check_histories(weather: Sky) -> None:
    """All of it."""
    seen = seen_of(weather)
    outcomes = {id: kept.dropped or {} for disk in weather.disks for id, kept in disk.store._threads.items()}
    record = weather.record
    for words in record.words.values():
        check_words(words, seen)
    check_said(weather, seen)
    for one in seen.values():
        check_turns(weather, one)
        check_calls(one)
        check_ids(one)
        check_order(weather, one)
    for callback in record.callbacks.values():
        if 200 in callback.statuses and callback.kind in ("result", "event") and callback.thread in seen:
            check_callback(callback, seen[callback.thread], outcomes.get(callback.thread, {}))
    check_tools(weather, seen)
    check_functions(weather, seen)
    check_choices(weather, seen)
    check_reports(seen)


def check_words(words: Words, seen: dict[str, Seen]) -> None:
    """What a person said is there once if it was taken, and once at most if nobody knows."""
    where = [one for one in seen.values() if not words.thread or one.thread == words.thread]
    said = [one for thread in where for one in thread.said if words.text in text_of(one.parts)]
    queued = [one for thread in where for one in thread.queued if words.text in text_of(one.parts)]
    assert len(said) <= 1, f"{words.text!r} was said twice in {words.thread}"
    assert len(queued) <= 1, f"{words.text!r} was queued twice in {words.thread}"
    if words.signal and words.thread in seen:
        thread = seen[words.thread]
        assert said or thread.closed, f"{words.text!r} was taken and is not in {words.thread}"


def check_said(weather: Sky, seen: dict[str, Seen]) -> None:
    """Nothing is there that nobody said."""
    known = {words.text for words in weather.record.words.values()}
    for thread in seen.values():
        for one in thread.said:
            assert first_of(one) in known, f"{first_of(one)!r} in {thread.thread} was said by nobody"


def first_of(said: Said) -> str:
    """What a person said by its first line: images, files and long texts may have come along."""
    return text_of(said.parts).partition("\n")[0]


def check_turns(weather: Sky, thread: Seen) -> None:
    """Each turn is one answer of the model, whole or marked as cut, in the order of completions."""
    ordinals = [turn.ordinal for turn in thread.turns]
    assert ordinals == list(range(len(ordinals))), f"the completions of {thread.thread} are {ordinals}"
    for at, message in enumerate(thread.messages, 1):
        if isinstance(message, Turn):
            assert message.upto < at
            _check_turn(weather, thread.thread, message)


def _check_turn(weather: Sky, thread: str, turn: Turn) -> None:
    text = text_of(turn.parts)
    found = [one for one in weather.record.answers.values() if _is_of(one.thread, one.ordinal, thread, turn)]
    calls = [(part.name, part.arguments) for part in turn.parts if isinstance(part, Call)]
    if turn.cut:
        fits = [one for one in found if one.text.startswith(text)]
    else:
        fits = [one for one in found if one.whole and one.text.strip() == text.strip()]
        fits = [one for one in fits if [name for name, _ in one.calls] == [name for name, _ in calls]]
    assert fits or (turn.cut and not text), (
        f"completion {turn.ordinal} of {thread} is nothing that the model said"
    )


def _is_of(thread: str, ordinal: int, other: str, turn: Turn) -> bool:
    return thread == other and ordinal == turn.ordinal


def check_calls(thread: Seen) -> None:
    """Each call has one result, and one more only where the first left it open; no result is of no call."""
    for id in thread.results:
        assert id in thread.calls, f"{thread.thread} has a result of {id}, which was not called there"
    for id, call in thread.calls.items():
        got = thread.results.get(id, [])
        assert len(got) <= 2, f"{id} of {thread.thread} has {len(got)} results"
        if len(got) == 2:
            assert got[0].cause in LEAVES_OPEN, f"{id} of {thread.thread} was settled twice"
            assert got[1].cause not in LEAVES_OPEN, (
                f"{id} of {thread.thread} was settled twice by the runtime"
            )
        assert got or call.passive or thread.closed, f"{id} ({call.name}) of {thread.thread} has no result"


def check_ids(thread: Seen) -> None:
    """No signal is there twice."""
    ids = Counter(
        signal
        for message in thread.messages
        if (signal := getattr(message.note if isinstance(message, Noted) else message, "signal", ""))
        and not (isinstance(message, Noted) and isinstance(message.note, Queued))
    )
    double = [id for id, count in ids.items() if count > 1]
    assert not double, f"{thread.thread} has absorbed {double} twice"


def check_order(weather: Sky, thread: Seen) -> None:
    """What was said after something else had been taken comes after it."""
    words = {one.text: one for one in weather.record.words.values() if one.thread == thread.thread}
    said = [words[text] for one in thread.said if (text := first_of(one)) in words and one.mode == "steer"]
    for place, earlier in enumerate(said):
        for later in said[:place]:
            assert not (earlier.taken and earlier.taken < later.begun), (
                f"{earlier.text!r} was taken before {later.text!r} was said, and comes after it"
            )


def check_callback(callback: Callback, thread: Seen, outcomes: dict[str, str]) -> None:
    """What a tool server was told is taken is there once, or was dropped for a recorded reason."""
    if callback.kind == "event":
        found = [o for o in thread.happened if o.call == callback.call and o.event_id == callback.event]
        prefix = f"{callback.call}/event/{callback.event}"
    else:
        found = [o for o in thread.results[callback.call] if callback.words in text_of(o.parts)]  # type: ignore[misc]
        found += [o for o in thread.late[callback.call] if callback.words in text_of(o.parts)]  # type: ignore[misc]
        prefix = f"{callback.call}/result"
    what = f"{callback.kind} {callback.event or callback.words!r} of {callback.call} in {callback.thread}"
    assert len(found) <= 1, f"the {what} is there {len(found)} times"
    dropped = any(id.startswith(prefix) for id in outcomes)
    assert found or dropped or thread.closed, f"the {what} was taken and is not there"


def check_tools(weather: Sky, seen: dict[str, Seen]) -> None:
    """What was sent to tool servers is what models called; what must not be repeated was not."""
    record = weather.record
    for call, sendings in record.sendings.items():
        first = sendings[0]
        if first.thread not in seen:
            continue
        made = seen[first.thread].calls.get(call)
        assert made is not None, f"{call} was sent and never called"
        for one in sendings:
            assert (one.name, one.arguments) == (made.name, made.arguments), f"{call} was sent otherwise"
        if made.repeat == "unsafe":
            uncertain = [one for one in sendings[:-1] if one.outcome != "not sent"]
            assert not uncertain, (
                f"{call} ({made.name}) is unsafe, and was sent again although it may have arrived"
            )
    for call, got in record.received.items():
        sent = {(one.name, one.arguments) for one in record.sendings.get(call, ())}
        assert set(got) <= sent, f"{call} arrived and was never sent"


def check_functions(weather: Sky, seen: dict[str, Seen]) -> None:
    """Functions ran for calls that were made, those that are unsafe once."""
    for key, ran in weather.record.ran.items():
        thread, _, call = key.partition("/")
        if thread not in seen or ran[0].name == "add":
            continue
        made = seen[thread].calls.get(call)
        assert made is not None, f"{ran[0].name} ran for {call}, which was never called"
        assert made.name == ran[0].name
        if made.repeat == "unsafe":
            assert len(ran) == 1, f"{made.name} is unsafe, and ran {len(ran)} times for {call}"
        _check_outcome(seen[thread], call, {one.words for one in ran if one.words})


def _check_outcome(thread: Seen, call: str, words: set[str]) -> None:
    """What a call is said to have given is what a run of it gave."""
    for result in thread.results[call]:
        if not result.is_error and not result.cause:
            told = text_of(result.parts)
            assert told in words or result.handle, f"{call} has a result that none of its runs gave"


def check_choices(weather: Sky, seen: dict[str, Seen]) -> None:
    """A call that needs a person's approval was not sent out without it."""
    policy = weather.agents[0].approvals
    if policy.policy == "never":
        return
    by_default = policy.seconds > 0 and policy.default == "approve"
    begun = {call: one[0] for call, one in weather.record.sendings.items()}
    for key in weather.record.ran:
        begun.setdefault(key.partition("/")[2], weather.record.ran[key][0])  # type: ignore[arg-type]
    for call, one in begun.items():
        if one.name in ("wipe", "guarded") and not by_default:
            approved = any(
                f".{call}." in wait and chosen.value in ("approve", True)
                for wait, answers in weather.record.chosen.items()
                for chosen in answers
            )
            assert approved, f"{call} ({one.name}) began without a person's approval"


def check_reports(seen: dict[str, Seen]) -> None:
    """What one thread says to another is there once."""
    for thread in seen.values():
        signals = Counter(one.signal for one in thread.messages if isinstance(one, Reported) and one.signal)
        assert all(count == 1 for count in signals.values()), f"{thread.thread} was told something twice"
