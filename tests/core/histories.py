"""Whole lives of threads at random: signals of all kinds, turns of all kinds, in any order."""

import os
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.core.laws import check_laws
from tests.core.playing import Played, call
from torpor.core.chunks import Stop
from torpor.core.messages import Call, Image, Reasoning, Text, Turn, Usage
from torpor.core.signals import AnySignal
from torpor.core.turn import RawCall, RawPart

Move = tuple[Any, ...]

EXAMPLES = int(os.environ.get("TORPOR_EXAMPLES", "0"))
"""How many random lives to try; 0: those of every run, always the same ones."""

LIVES = 80

searched = settings(
    max_examples=EXAMPLES or LIVES,
    derandomize=EXAMPLES <= LIVES,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

number = st.integers(0, 30)
flag = st.booleans()

_texts = st.tuples(
    st.just("text"),
    st.sampled_from(["steer", "steer", "queue", "queue", "interrupt"]),
    st.sampled_from(["words", "words", "blank", "image"]),
)
_results = st.tuples(
    st.just("result"),
    number,
    st.sampled_from(["", "", "", "", "undelivered", "unknown"]),
    st.sampled_from([False, False, True]),
    flag,
)
_events = st.tuples(
    st.just("event"),
    number,
    st.integers(0, 5),
    st.sampled_from([False] * 4 + [True]),
    flag,
    st.sampled_from([True, True, True, False]),
)
_words = st.tuples(
    st.just("word"), number, st.sampled_from(["report", "ended", "rested", "closed", "parked"])
)
_dues = st.tuples(st.just("due"), number)
_acts = st.sampled_from([("stop",), ("nudge",), ("nudge",)])
_ends = st.just(("close",))
signals = st.one_of(
    _texts, _texts, _results, _results, _results, _events, _events, _words, _dues, _dues, _acts
)
batches = st.lists(signals, min_size=1, max_size=4)

_call = st.sampled_from(
    [
        *(call(name, '{"n": 2}') for name in ("read", "write", "remote", "bounded") * 5),
        call("read", '{"path": "a"}'),
        call("read", '{"path": "a"}', provider_id="call_0"),
        call("write", ""),
        call("write", '{"text": "' + "x" * 3_000 + '"}'),
        call("remote", '{"n": 1}'),
        call("bounded", "{}"),
        call("quick", "{}"),
        call("sleep", '{"seconds": 60}'),
        call("sleep", '{"seconds": 5, "reason": "' + "so " * 1_000 + '"}'),
        call("sleep", '{"seconds": 0}'),
        call("sleep_until", '{"date": "1970-01-02", "time": "00:00"}'),
        call("sleep_until_event_or_input", ""),
        call("cancel_subscription", '{"tool_call_id": "t2-0"}'),
        call("nothing", "{}"),
        call("receive_event__injected", "{}"),
        call("read", '{"bad": 1}'),
        call("read", "no json"),
        call("we ird.näme", "[1]"),
        call("spawn_thread", '{"instructions": "do it", "child_of": ["root"]}'),
        call("spawn_thread", '{"instructions": "do it", "child_of": []}'),
        call("send_message_to_child", '{"thread_id": "nobody", "message": "hello"}'),
        call("report_to_parent", '{"report": "done"}'),
        call("close_thread", '{"thread_id": "thread00000000000001"}'),
        call("wait_for", '{"ids": ["t2-0", "t4-0"]}'),
        call("wait_for", '{"ids": ["t2-0"], "seconds": 90}'),
        call("set_title", '{"title": "A title"}'),
    ]
)
_part = st.one_of(
    st.sampled_from([Text("words"), Text("  "), Reasoning("thought", "sig", "x"), Reasoning("unsigned")]),
    _call,
    _call,
)
turns = st.tuples(
    st.lists(_part, max_size=4),
    st.sampled_from(["whole"] * 6 + ["cut", "slow"]),
    st.lists(signals, max_size=2),
)
dice = st.integers(0, 19)
moves = st.tuples(dice, batches, turns)
lives = st.tuples(
    st.sampled_from(["all", "each"]),
    st.sampled_from([1, 1, 2, 8]),
    st.lists(moves, min_size=25, max_size=45),
    flag,
)
OPENING = [("text", "steer", "words")]


class Life:
    """One random history under way. Moves are read as what they can mean at the moment."""

    def __init__(self, wake: str, parallel: int) -> None:
        self.played = Played(wake=wake, parallel=parallel, completions=1_000, loopbacks=1_000)
        self.absorbed: list[AnySignal] = []
        self.words = 0

    def move(self, move: Move) -> None:
        """Do what can be done of a move, then check every law."""
        dice, specs, turn = move
        asking = self.played.why == "complete"
        if asking and dice < 14:
            self._turn(*turn)
        elif asking and dice == 18:
            self.played.park(aside=len(specs) > 1)
        elif asking and dice == 19:
            self.played.fail(*self._signals(specs))
        elif self.played.why == "waiting" and dice < 6:
            self.come([("settle", dice)])
        else:
            self.come(specs)
        check_laws(self.played, self.absorbed)

    def come(self, specs: Sequence[Move]) -> None:
        """Signals come, as one batch."""
        batch = self._signals(specs)
        self.played.absorb(*batch)
        self.absorbed += batch

    def _turn(self, parts: Sequence[RawPart], how: str, specs: Sequence[Move]) -> None:
        raw = [msgspec.structs.replace(p, text=self._say()) if p == Text("words") else p for p in parts]
        meanwhile = self._signals(specs) if how == "slow" else []
        stop = Stop(usage=Usage(3, output=4), reason="calls" if _has_calls(raw) else "end")
        self.played.reply(*raw, cut=how == "cut", meanwhile=meanwhile, stop=stop)
        self.absorbed += meanwhile

    def _say(self) -> str:
        self.words += 1
        return f"<{self.words}>"

    def _signals(self, specs: Sequence[Move]) -> list[AnySignal]:
        found = [self._signal(spec) for spec in specs]
        return list({signal.id: signal for signal in found if signal is not None}.values())

    def _signal(self, spec: Move) -> AnySignal | None:
        played = self.played
        match spec:
            case ("text", mode, kind):
                return played.text(mode=mode, parts=self._parts(kind))
            case ("result", which, cause, subscription, is_error):
                id = self._sent(which)
                more = {"cause": cause, "subscription": subscription and not cause, "is_error": is_error}
                return played.result(id, self._say(), **more) if id else None
            case ("settle", which):
                id = self._open(which)
                return played.result(id, self._say()) if id else None
            case ("word", which, what):
                children = list(played.head.children) or ["stranger"]
                child = children[which % len(children)]
                return played.word(child, self._say(), what)
            case ("event", which, seq, final, hurried, own):
                id = self._sent(which)
                by = played.now + 3.0 if hurried else 0.0
                if not id:
                    return None
                return played.event(id, self._say(), seq=seq, final=final, start_by=by, associative=own)
            case ("due", which):
                return self._due(which)
            case ("stop",):
                return played.stop()
            case ("close",):
                return played.close()
            case _:
                return played.nudge()

    def _parts(self, kind: str) -> tuple[Text | Image, ...]:
        if kind == "image":
            return (Image("aGk=", "image/png"),)
        return (Text("  "),) if kind == "blank" else (Text(self._say()),)

    def _sent(self, which: int) -> str:
        """A call that was ever sent out, recent ones first; rarely one that never was."""
        calls = list(reversed(self.played.invoked))
        if which == 30:
            return "never"
        return calls[which % len(calls)] if calls else ""

    def _open(self, which: int) -> str:
        """A call that a tool is working on."""
        head = self.played.head
        calls = [id for id, call in (head.pending | head.detached).items() if not (call.passive or call.held)]
        return calls[which % len(calls)] if calls else ""

    def _due(self, which: int) -> AnySignal | None:
        timers = sorted(self.played.timers.values(), key=lambda timer: timer.due)
        if not timers:
            return None
        due = timers[which % len(timers)]
        self.played.now = max(self.played.now, due.due)
        return due


def _has_calls(parts: Sequence[RawPart]) -> bool:
    return any(isinstance(part, RawCall) for part in parts)


def live(wake: str, parallel: int, steps: Sequence[Move], closing: bool) -> Life:
    """A whole life, every law checked after each move."""
    life = Life(wake, parallel)
    life.come(OPENING)
    for step in steps:
        life.move(step)
    if closing:
        life.come([("close",)])
        life.come([*OPENING, ("nudge",)])
        check_laws(life.played, life.absorbed)
        assert life.played.why == "closed"
        assert not life.played.head.pending
    return life


def calls_of(played: Played) -> list[Call]:
    """All calls of a life, in order."""
    return [part for turn in played.all(Turn) for part in turn.parts if isinstance(part, Call)]
