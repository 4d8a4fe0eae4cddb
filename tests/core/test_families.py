"""Random lives of whole families: who is waited for is heard of, and nobody is counted who is not there."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.families import Family, begun, tool_call
from tests.core.histories import EXAMPLES, searched
from tests.core.playing import THREAD, Played, call
from torpor.core.definition import Events
from torpor.core.effects import Post
from torpor.core.messages import By, Happened, Reported, Spawned
from torpor.core.signals import AnySignal, ClosedSignal, Due, ReportedSignal, StoppedSignal, Told
from torpor.core.turn import RawPart

Move = tuple[Any, ...]

OUTCOMES = {"absorbed", "closed", "stopped already", "no such thread in its family"}

number = st.integers(0, 30)
_calls = st.sampled_from(
    ["spawn"] * 6
    + ["fresh", "lost", "report", "report", "close", "send", "send", "wait", "wait"]
    + ["sleep", "nap", "remote", "remote", "remote", "read", "title", "cancel"]
)
_turn = st.tuples(st.just("turn"), number, st.lists(st.tuples(_calls, number), max_size=3), number)
_news = st.tuples(
    st.sampled_from(["deliver"] * 4 + ["result", "result", "subscribe", "event", "event", "event", "due"]),
    number,
    number,
    st.booleans(),
)
_people = st.tuples(
    st.sampled_from(["text"] * 6 + ["interrupt", "queue", "stop", "nudge", "nudge", "close", "park"]), number
)
moves = st.lists(st.one_of(_turn, _turn, _news, _news, _people), min_size=15, max_size=45)
lives = st.tuples(
    st.sampled_from(["close", "adopt"]),
    st.sampled_from([0.0, 0.0, 50.0]),
    st.sampled_from([{}, {"threads": 6}, {"children": 2}, {"depth": 2}]),
    moves,
)


class Lives:
    """One random family under way. Moves are read as what they can mean at the moment."""

    def __init__(self, orphans: str, window: float, limits: dict[str, int]) -> None:
        self.family = begun(
            completions=1_000, loopbacks=1_000, orphans=orphans, events=Events(window, 3), **limits
        )
        [sub] = self.family.reply(THREAD, call("remote"))
        self.family.absorb(THREAD, self.family.root.result(sub, subscription=True))

    def move(self, move: Move) -> None:
        """Do what can be done of a move."""
        what, which = move[0], move[1]
        ids = list(self.family.kin)
        if what in ("result", "subscribe", "event"):
            ids = [one for one in ids if self.open(one)] or ids
        id = ids[which % len(ids)]
        played = self.family.kin[id]
        if what == "turn":
            asked = [one for one in ids if self.family.kin[one].why == "complete"]
            if asked:
                youngest_first = asked[:: -1 if move[3] % 4 else 1]
                self.turn(youngest_first[which % len(asked) // 2], move[2], move[3])
        elif what == "park":
            if played.why == "complete":
                played.park(reason="limit")
        else:
            signal = self.signal(played, move)
            self.family.absorb(id, *([signal] if signal else []))
        self.family.carry()

    def turn(self, id: str, calls: Sequence[tuple[str, int]], style: int) -> None:
        """A thread's model answers; its posts are carried, and delivered later."""
        raw: list[RawPart | str] = [] if style % 3 == 0 else ["words"]
        raw += [self.call(id, kind, which) for kind, which in calls]
        self.family.kin[id].reply(*raw, cut=style == 29)

    def call(self, id: str, kind: str, which: int) -> RawPart:
        head = self.family.kin[id].head
        children, subs = list(head.children) or ["none"], list(head.subscriptions) or ["none"]
        child, sub = children[which % len(children)], subs[which % len(subs)]
        known = [*head.children, *head.subscriptions, *head.detached] or ["none"]
        match kind:
            case "spawn" | "fresh":
                return self.family.spawning(id, f"task {which}", fresh_context=kind == "fresh")
            case "lost":
                return tool_call("spawn_thread", instructions="More.", child_of=["root"])
            case "report":
                return tool_call("report_to_parent", report=f"report {which}")
            case "close":
                return tool_call("close_thread", thread_id=id, report_to_parent="bye" * (which % 2))
            case "send":
                return tool_call("send_message_to_child", thread_id=child, message="Go on.")
            case "wait":
                mode, first = ("any", "all")[which % 2], known[which % len(known) :]
                return tool_call("wait_for", ids=first[:3], mode=mode)
            case "sleep":
                return call("sleep_until_event_or_input")
            case "nap":
                return call("sleep", '{"seconds": 90}')
            case "title":
                return tool_call("set_title", title=f"title {which}")
            case "cancel":
                return tool_call("cancel_subscription", tool_call_id=sub)
            case _:
                return call(kind)

    def open(self, id: str) -> list[str]:
        """Calls of a thread whose events may come."""
        head = self.family.kin[id].head
        calls = {**head.pending, **head.detached}
        return [*head.subscriptions, *(one for one, known in calls.items() if known.server)]

    def signal(self, played: Played, move: Move) -> AnySignal | None:
        """What comes to a thread from outside."""
        open_ = self.open(played.thread)
        running = [id for id in open_ if id not in played.head.subscriptions]
        match move:
            case ("result" | "subscribe" as what, _, which, _) if running:
                return played.result(running[which % len(running)], subscription=what == "subscribe")
            case ("event", _, which, final) if open_:
                return played.event(
                    open_[which % len(open_)],
                    "ding",
                    associative=which % 4 == 0,
                    final=final and which % 3 == 0,
                )
            case ("due", _, which, _) if played.alarms:
                timer: AnySignal = list(played.alarms.values())[which % len(played.alarms)]
                played.now = max(played.now, timer.due)
                return timer
            case ("text" | "interrupt" | "queue" as mode, _):
                return played.text(mode="steer" if mode == "text" else str(mode))
            case ("stop", _):
                return StoppedSignal(played.thread, played._id("stop"), played.coming, By("person"))
            case ("close", which) if which % 3 == 0:
                return ClosedSignal(played.thread, played._id("close"), played.coming, By("person"))
            case ("nudge", _):
                return played.nudge()
            case _:
                return None

    def finish(self) -> None:
        """All that is on its way arrives, tools answer, and models say last words, until all is quiet."""
        for _ in range(1_000):
            self.family.settle()
            asked = [played for played in self.family.kin.values() if played.why == "complete"]
            if asked:
                asked[-1].reply("I have seen it.")
            elif not self.tools_answer():
                return
        raise AssertionError("it never comes to an end")

    def tools_answer(self) -> bool:
        """Let one thing come that a thread waits for: a result, the end of a subscription, a timer."""
        for played in self.family.kin.values():
            head = played.head
            open_ = (head.pending | head.detached).items()
            wanted = [id for id, one in open_ if not (one.given_up or one.passive)]
            if head.state == "closed":
                continue
            if wanted:
                played.absorb(played.result(wanted[0]))
            elif head.subscriptions:
                played.absorb(played.event(next(iter(head.subscriptions)), associative=False, final=True))
            elif played.alarms:
                timer = next(iter(played.alarms.values()))
                played.now = max(played.now, timer.due)
                played.absorb(timer)
            else:
                continue
            self.family.carry()
            return True
        return False


def check_family(family: Family) -> None:
    """What holds once nothing is on its way."""
    for id, played in family.kin.items():
        head = played.head
        living = {
            one
            for one, other in family.kin.items()
            if other.head.parent == id and other.head.state != "closed"
        }
        assert set(head.children) == (living if head.state != "closed" else set()), id
        assert head.used == sum(child.places for child in head.children.values())
        assert head.used <= (head.quota if head.parent else played.definition.limits.threads)
        check_posts(family, played)
        check_rest(family, played)
        for timer in played.timers.values():
            assert isinstance(timer, Due)
            assert timer.what != "events" or timer.call in head.gathered


def check_posts(family: Family, played: Played) -> None:
    """What one thread says to another has an outcome there, and is in its history if it was absorbed."""
    for effect in played.effects:
        if not isinstance(effect, Post):
            continue
        signal, to = effect.signal, family.kin[effect.signal.thread]
        outcome = to.outcomes[signal.id]
        if isinstance(signal, ReportedSignal | Told) and outcome == "absorbed":
            assert sum(word.signal == signal.id for word in to.all(Reported)) == 1
        else:
            assert outcome in ("absorbed", "closed", "stopped already", "no such thread in its family"), (
                outcome
            )


def check_rest(family: Family, played: Played) -> None:
    """No thread waits for what cannot come, and no end of a child is kept from its parent."""
    head = played.head
    assert not (head.state == "open" and head.owes and not head.pending)
    if head.state == "open":
        for wait in head.pending.values():
            sleepers = [id for id in wait.awaits if id in head.children and family.kin[id].head.pending]
            assert wait.name == "sleep_until_event_or_input" or sleepers, wait
    if head.parent and head.state == "open" and not head.pending:
        works = head.gathered or any(child.state == "open" for child in head.children.values())
        assert works or (head.rested and head.purpose == "child"), played.thread
    parent = family.kin.get(head.parent)
    if parent is not None and head.state != "closed" and parent.head.state == "closed":
        raise AssertionError("an orphan")
    for event, position in _threaded(played):
        given = [note for note in played.all(Spawned) if position in note.events]
        gathered = head.gathered.get(event.call)
        waits = gathered is not None and position in gathered.positions
        assert len(given) + waits <= 1
        assert not waits or head.state != "open" or _is_full(played)


def _threaded(played: Played) -> list[tuple[Happened, int]]:
    return [
        (message, position)
        for position, message in enumerate(played.messages, 1)
        if isinstance(message, Happened) and message.threaded
    ]


def _is_full(played: Played) -> bool:
    head, limits = played.head, played.definition.limits
    most = head.quota if head.parent else limits.threads
    working = [
        child for child in head.children.values() if child.purpose == "event" and child.state == "open"
    ]
    return head.used >= most or len(working) >= limits.events


class Census:
    """How many of the lives had what."""

    def __init__(self) -> None:
        self.lives = 0
        self.found = dict.fromkeys(["children", "grandchildren", "events", "reports", "ended", "adopted"], 0)

    def count(self, family: Family) -> None:
        """Take in one life."""
        self.lives += 1
        heads = [played.head for played in family.kin.values()]
        words = {word.what for played in family.kin.values() for word in played.all(Reported)}
        self.found["children"] += any(head.purpose == "child" for head in heads)
        self.found["grandchildren"] += any(len(head.ancestors) > 1 for head in heads)
        self.found["events"] += any(head.purpose == "event" for head in heads)
        self.found["reports"] += "report" in words
        self.found["ended"] += "ended" in words
        self.found["adopted"] += "adopted" in words


def test_every_family_comes_to_rest_and_everybody_is_heard_of() -> None:
    census = Census()

    @settings(searched, max_examples=EXAMPLES or 20)
    @given(lives)
    def run(life: tuple[str, float, dict[str, int], list[Move]]) -> None:
        orphans, window, limits, steps = life
        played = Lives(orphans, window, limits)
        for step in steps:
            played.move(step)
        played.finish()
        check_family(played.family)
        census.count(played.family)

    run()
    found = {what: count / census.lives for what, count in census.found.items()}
    assert all(found[what] > 1 / 10 for what in ("children", "events", "reports", "ended")), found
    assert found["grandchildren"] > 1 / 10, found
