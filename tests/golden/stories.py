"""Whole conversations, played by the core alone and written down as text that people can read."""

from collections.abc import Callable

from tests.core.playing import Played, call
from torpor.core.messages import (
    Call,
    Detached,
    Happened,
    Message,
    Noted,
    Parked,
    Reasoning,
    Reported,
    Result,
    Said,
    Summary,
    Text,
    Turn,
    text_of,
)
from torpor.core.request import AnyItem, InjectedItem, InputItem, ResultsItem, TurnItem


def parallel_calls() -> Played:
    played = Played(parallel=2)
    played.absorb(played.text("Compare the three files."))
    a, b, c = played.reply(
        "Reading.",
        call("read", '{"path": "a"}'),
        call("remote", '{"path": "b"}'),
        call("read", '{"path": "c"}'),
    )
    played.absorb(played.result(b, "text of b"))
    played.absorb(played.result(c, "no such file", is_error=True))
    played.absorb(played.result(a, "text of a"))
    played.reply("a and b differ; c is missing.")
    return played


def steered() -> Played:
    played = Played()
    played.absorb(played.text("Run the tests."))
    [a] = played.reply(call("remote", '{"command": "make test"}'))
    played.absorb(played.text("How is it going?"))
    played.reply("They are still running.")
    played.absorb(played.text("Then write the summary.", "queue"))
    played.reply("I shall, when they are done.")
    played.absorb(played.result(a, "3 failed"))
    played.reply("Three tests failed.")
    return played


def interrupted() -> Played:
    played = Played()
    played.absorb(played.text("Delete the old logs."))
    [a] = played.reply(Reasoning("Old means a week.", "signature", "x"), call("write", '{"delete": "logs"}'))
    played.reply("Half a sen", signals=[played.result(a, "deleted 3")], cut=True)
    played.absorb(played.text("Stop! Not those.", "interrupt"))
    b, _ = played.reply("Restoring.", call("remote", '{"restore": 3}'), call("write"))
    played.absorb(played.text("Leave it.", "interrupt"))
    played.absorb(played.result(b, "restored"))
    played.reply("Left as it is.")
    return played


def watched() -> Played:
    played = Played()
    played.absorb(played.text("Tell me when the build breaks."))
    [a] = played.reply(call("remote", '{"watch": "build"}'))
    played.absorb(played.event(a, "build 1 passed", seq=1), played.result(a, "watching", subscription=True))
    played.reply("I am watching.", call("sleep_until_event_or_input"))
    played.now += 3_600.0
    played.absorb(played.event(a, "build 4 failed", seq=4, occurred_at="2026-01-01T00:00:00Z"))
    played.reply("Build 4 failed.", call("cancel_subscription", f'{{"tool_call_id": "{a}"}}'))
    played.reply("I stopped watching.", call("sleep", '{"seconds": 5}'))
    played.absorb(*played.timers.values())
    played.reply("Good night.")
    return played


def mistaken() -> Played:
    played = Played(loopbacks=3)
    played.absorb(played.text("Do it."))
    played.reply(call("raed", "{}"), call("read", "{'path': 1}"), call("read", '{"bad": 1}'))
    played.reply(call("receive_event__injected"), call("sleep", '{"seconds": 0}'))
    played.reply(call("sleep_until", '{"date": "2026-02-30", "time": "25:00"}'))
    played.park(reason=played.why)
    played.absorb(played.nudge())
    played.reply("I give up.")
    return played


def set_aside() -> Played:
    played = Played()
    played.absorb(played.text("Hello."))
    [a] = played.reply("Hello.", call("bounded"))
    played.absorb(played.timer(a, "deadline"))
    played.park(played.text("what the model choked on"), aside=True, reason="The request is too long.")
    played.absorb(played.text("Try this instead."))
    played.reply("Fine.")
    played.absorb(played.result(a, "sorry, I was slow"))
    played.reply("Never mind.")
    return played


def each_by_itself() -> Played:
    played = Played(wake="each")
    played.absorb(played.text("Ask all three."))
    a, b, c = played.reply(call("remote", '{"n": 1}'), call("remote", '{"n": 2}'), call("remote", '{"n": 3}'))
    played.absorb(played.result(b, "two"))
    played.reply("The second answered.")
    played.absorb(played.result(c, "three"), played.result(a, "gave up", is_error=True, cause="undelivered"))
    played.reply("The third answered, the first cannot be reached.")
    played.absorb(played.result(a, "one after all"))
    played.reply("All answered.")
    return played


def delegated() -> Played:
    played = Played()
    played.absorb(played.text("Watch the door, and have the files counted."))
    a, _ = played.reply(
        call("remote", '{"watch": "door"}'),
        call("spawn_thread", '{"instructions": "Count the files.", "child_of": ["root"]}'),
    )
    played.absorb(played.result(a, "watching", subscription=True))
    [child] = played.head.children
    played.reply("Both are under way.", call("wait_for", f'{{"ids": ["{child}"]}}'))
    played.absorb(played.event(a, "opened", associative=False))
    played.absorb(played.word(child, "42 files."))
    played.reply(call("send_message_to_child", f'{{"thread_id": "{child}", "message": "Hidden ones too?"}}'))
    played.reply("42, and I have asked for the hidden ones.")
    played.absorb(played.word(child, "50 with those.", "ended"))
    played.reply("50 in all.")
    return played


STORIES: dict[str, Callable[[], Played]] = {
    story.__name__: story
    for story in (
        parallel_calls,
        steered,
        interrupted,
        watched,
        mistaken,
        set_aside,
        each_by_itself,
        delegated,
    )
}


def written(played: Played) -> str:
    """A thread's history, and what each of its completions was shown besides what was shown before."""
    lines = ["HISTORY"]
    lines += [f"{position:>3}  {_message(message)}" for position, message in enumerate(played.messages, 1)]
    shown = 0
    for number, request in enumerate(played.requests):
        lines += ["", f"REQUEST {number}"]
        lines += [f"  {_item(item)}" for item in request.items[shown:]]
        shown = len(request.items)
    return "\n".join(lines) + "\n"


def _message(message: Message) -> str:
    match message:
        case Said():
            return f"said {message.mode}: {text_of(message.parts)}"
        case Turn():
            marks = [word for word in ("cut", "loopback", "end") if getattr(message, word)]
            parts = " ; ".join(map(_part, message.parts))
            return f"turn {message.ordinal} up to {message.upto} {' '.join(marks)}: {parts}".replace(
                " :", ":"
            )
        case Result():
            how = message.cause or ("error" if message.is_error else "ok")
            return f"result of {message.call} ({how}): {text_of(message.parts)}"
        case Happened():
            return (
                f"happened at {message.call} (seq {message.seq}, gap {message.gap}): {text_of(message.parts)}"
            )
        case Reported():
            owed = "" if message.owes else ", owing nothing"
            return f"{message.what} of {message.thread}{owed}: {text_of(message.parts)}"
        case Summary():
            return f"summary up to {message.upto}: {message.text}"
        case _:
            return _noted(message)


def _noted(message: Noted) -> str:
    note = message.note
    if isinstance(note, Parked):
        return f"noted parked{' aside' if note.aside else ''}: {note.reason}"
    told = f" {', '.join(note.calls)} ({note.why})" if isinstance(note, Detached) else ""
    return f"noted {type(note).__name__.lower()}{told}"


def _part(part: object) -> str:
    match part:
        case Text():
            return f"text {part.text!r}"
        case Reasoning():
            return f"reasoning {part.text!r}"
        case Call():
            marks = [word for word in ("invalid", "passive", "held") if getattr(part, word)]
            return " ".join([f"call {part.id} {part.name}({part.arguments})", *marks])
        case _:
            return type(part).__name__


def _item(item: AnyItem) -> str:
    match item:
        case InputItem():
            return f"{item.stamp} {item.text}"
        case TurnItem():
            return "turn: " + " ; ".join(map(_part, item.parts))
        case ResultsItem():
            views = (f"{view.call}{' error' if view.is_error else ''} {view.text!r}" for view in item.results)
            return "results: " + " ; ".join(views)
        case InjectedItem():
            return f"injected {item.id} {item.wrapped} {item.heading} {item.text!r}"
        case _:
            return item.text
