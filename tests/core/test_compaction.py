"""Compaction in the core: when it begins, what it covers, and what becomes of the summary."""

from typing import Any

import msgspec
import pytest

from tests.core.playing import THREAD, Played, call, tool
from torpor.core import compaction, news
from torpor.core.absorb import absorb
from torpor.core.answer import Asked, answer
from torpor.core.calls import note
from torpor.core.chunks import Stop
from torpor.core.compaction import Stuck, begin_asked_for, is_due, make_room, make_room_at_once
from torpor.core.definition import Definition
from torpor.core.effects import Post, Spawn
from torpor.core.facts import facts
from torpor.core.head import Child, Compaction, Head
from torpor.core.messages import (
    Compacting,
    Folded,
    Link,
    OpenWait,
    Requested,
    Result,
    Spawned,
    Summary,
    Titled,
    Uncompacted,
    Usage,
    text_of,
)
from torpor.core.prompt import Projection
from torpor.core.request import InjectedItem
from torpor.core.signals import BornSignal, ClosedSignal, Compacted, CompactSignal, Due
from torpor.core.step import Step

WINDOW = 1_000
FULL = Stop(usage=Usage(800, output=1))
"""The window is nearly full after this answer."""


def fresh(window: int = WINDOW) -> Played:
    """A thread of an agent with small tools."""
    played = Played(window=window)
    few = {name: played.definition.tools[name] for name in ("read", "remote", "write")}
    played.definition = msgspec.structs.replace(played.definition, tools=few)
    return played


def talked(*turns: str) -> Played:
    """A thread that has answered so many texts; after the last answer its window is nearly full."""
    played = fresh()
    for turn in turns:
        played.reply(f"answer to {turn}", signals=[played.text(turn)], stop=FULL)
    return played


def summed(played: Played, text: str = "a summary", **fields: Any) -> Step:
    """The compaction child under way comes to an end."""
    begun = played.head.compaction
    assert begun is not None
    fields.setdefault("child", begun.child)
    return played.absorb(Compacted(THREAD, f"{begun.child}/compacted", played.coming, text=text, **fields))


def begun(played: Played) -> Compacting:
    """What the one compaction so far was begun as."""
    [found] = played.all(Compacting)
    return found


def births(played: Played) -> list[BornSignal]:
    return [effect.born for effect in played.effects if isinstance(effect, Spawn)]


# -------------------------------------------------------------- when it is due


@pytest.mark.parametrize(
    ("head", "due"),
    [
        (Head(window=751), True),
        (Head(window=750), False),
        (Head(window=751, uncompacted=2), True),  # only to say that no more are begun
        (Head(window=751, uncompacted=3), False),
        (Head(window=751, purpose="compaction"), False),
        (Head(window=751, purpose="event"), True),
        (Head(window=751, compaction=Compaction("c", 1, 0.0)), False),
    ],
)
def test_it_is_due_once_three_quarters_of_the_window_are_taken(head: Head, due: bool) -> None:
    assert is_due(head, WINDOW) is due
    assert not is_due(head, 0)


def test_a_summary_covers_all_that_the_last_turn_has_seen() -> None:
    played = talked("one", "two")
    played.absorb(played.text("three"))
    played.decide(make_room)
    assert begun(played).upto == played.head.answered == 4
    assert not begun(played).blocking
    [born] = births(played)
    assert born.lineage == (Link(THREAD, 4),)
    assert (born.purpose, born.parent, born.ancestors) == ("compaction", THREAD, (THREAD,))
    assert (born.thread, born.id) == (begun(played).child, f"{begun(played).child}/born")
    assert len(born.thread) == 20
    assert "Write a summary" in text_of(born.parts)
    assert played.head.children == {}
    assert played.head.used == 0
    timer = played.timer(born.thread, "compaction")
    assert (timer.due, timer.call) == (played.now + 3_600.0, born.thread)


def test_the_thread_goes_on_meanwhile() -> None:
    played = talked("one", "two")
    played.absorb(played.text("three"))
    played.decide(make_room)
    assert played.why == "complete"
    played.reply("answer to three", stop=FULL)
    summed(played)
    assert shown(played) == ["[summary] a summary", "answer to two", "three", "answer to three"]


def test_of_two_summaries_the_one_that_covers_more_counts() -> None:
    played = talked("one", "two")
    played.decide(make_room)
    summed(played, "first")
    before = played.head
    played.decide(lambda step, shown: step.add(Summary(step.now, 2, "older", trace="trace")))
    assert (played.head.base, played.head.summary) == (before.base, before.summary)
    assert shown(played)[0] == "[summary] first"


def test_cmp_10_what_it_does_not_cover_stays_as_it_is() -> None:
    played = talked("t1", "t2")
    before = played.decide(lambda step, shown: shown.items)
    played.decide(make_room)
    played.reply("answer to t3", signals=[played.text("t3")], stop=FULL)
    summed(played)
    after = played.decide(lambda step, shown: shown.items)
    assert after[1] == before[3]
    assert shown(played) == ["[summary] a summary", "answer to t2", "t3", "answer to t3"]


def shown(played: Played) -> list[str]:
    """The items that the model would be shown, as short text; the runtime's prompts left out."""
    items = played.decide(lambda step, shown: shown.items)
    texts = []
    for item in items:
        text = item.text.removeprefix(f"{getattr(item, 'stamp', '')}\n")
        if hasattr(item, "summary"):
            text = f"[summary] {item.summary}"
        texts.append(text)
    return [text for text in texts if not text.startswith("[Nothing new")]


def test_e93_a_second_summary_covers_the_first() -> None:
    played = talked("one", "two")
    played.decide(make_room)
    summed(played, "first")
    position = played.head.length
    played.reply("answer to three", signals=[played.text("three")], stop=Stop(usage=Usage(300)))
    played.reply("answer to four", signals=[played.text("four")], stop=FULL)
    played.decide(make_room)
    second = played.all(Compacting)[-1]
    assert births(played)[-1].lineage == (Link(THREAD, second.upto, position, 4),)
    assert births(played)[-1].thread != births(played)[0].thread
    summed(played, "second")
    assert shown(played) == ["[summary] second", "answer to four"]
    played.reply("answer to five", signals=[played.text("five")], stop=FULL)
    played.decide(make_room)
    summed(played, "third")
    assert shown(played) == ["[summary] third", "answer to five"]
    assert [summary.upto for summary in played.all(Summary)] == sorted({s.upto for s in played.all(Summary)})


def test_e94_in_a_child_positions_are_its_own() -> None:
    played = talked("one")
    lineage = (Link("root", 30),)
    played.head = head = msgspec.structs.replace(played.head, lineage=lineage, ancestors=("root",))
    step = Step(THREAD, head, played.now, played.definition)
    projection = played.projection.fork()
    projection.show()
    make_room(step, projection)
    [spawn] = step.effects
    assert isinstance(spawn, Spawn)
    assert spawn.born.lineage == (Link("root", 30), Link(THREAD, 2))
    assert spawn.born.ancestors == ("root", THREAD)


def test_cmp_07_after_a_summary_only_a_new_measurement_begins_another() -> None:
    played = talked("one", "two")
    played.decide(make_room)
    summed(played)
    assert played.head.window == 0
    assert not is_due(played.head, WINDOW)
    played.reply("no usage told", signals=[played.text("three")], stop=Stop())
    assert not is_due(played.head, WINDOW)


def test_what_nothing_has_answered_is_not_covered() -> None:
    played = fresh()
    played.absorb(played.text("the first words " * 100))
    played.decide(make_room)
    assert played.all(Compacting) == []


# --------------------------------------------------------------------- folds


def folding(size: int, words: str = "work") -> Played:
    """A thread with a long result that it has seen."""
    played = fresh()
    [read] = played.reply(call("read"), signals=[played.text(words)])
    played.absorb(played.result(read, "x" * size))
    played.reply("seen", stop=FULL)
    return played


def test_long_results_are_folded_first() -> None:
    played = folding(9_000)
    upto = played.head.answered
    played.decide(make_room)
    assert played.all(Folded) == [Folded(upto)]
    assert played.all(Compacting) == []
    assert played.head.folded == upto


def test_a_fold_that_saves_less_than_a_third_is_not_worth_it() -> None:
    played = folding(9_000, words="w" * 20_000)
    played.decide(make_room)
    assert played.all(Folded) == []
    assert begun(played).upto == played.head.answered


def test_after_a_fold_that_was_not_enough_a_summary_is_begun() -> None:
    played = folding(9_000)
    played.decide(make_room)
    played.reply("more", signals=[played.text("on")], stop=FULL)
    played.decide(make_room)
    assert len(played.all(Folded)) == 1
    assert begun(played).upto == played.head.answered


# --------------------------------------------------- calls across the summary


def test_e92_a_call_that_is_pending_for_weeks_gets_its_result_after_the_summary() -> None:
    played = fresh()
    [build] = played.reply(call("remote", '{"what": "tower"}'), signals=[played.text("build")])
    played.reply("meanwhile", signals=[played.text("go on")], stop=FULL)
    played.reply("and on", signals=[played.text("and on")], stop=FULL)
    played.decide(make_room)
    assert [kept.id for kept in begun(played).calls] == [build]
    summed(played)
    played.now += 30 * 86_400.0
    played.absorb(played.result(build, "the tower stands"))
    assert played.why == "complete"
    last = played.decide(lambda step, shown: shown.items)[-1]
    assert isinstance(last, InjectedItem)
    assert (last.source, last.name, last.call) == ("result", "remote", build)
    assert last.arguments == '{"what": "tower"}'
    assert last.text == "the tower stands"


def test_a_result_that_came_while_the_summary_was_written_is_shown_after_it() -> None:
    played = fresh()
    [build] = played.reply(call("remote"), signals=[played.text("build")])
    played.reply("meanwhile", signals=[played.text("go on")], stop=FULL)
    played.decide(make_room)
    played.absorb(played.result(build, "the tower stands"))
    summed(played)
    assert [part.id for part in played.all(Summary)[0].calls] == [build]
    assert shown(played)[-1] == "the tower stands"


def test_parallel_calls_that_are_partly_settled() -> None:
    played = fresh()
    a, b, c = played.reply(call("read"), call("remote"), call("write"), signals=[played.text("three things")])
    played.absorb(played.result(a, "a"))
    played.reply("meanwhile", signals=[played.text("go on")], stop=FULL)
    played.absorb(played.result(c, "c"))
    played.decide(make_room)
    assert [kept.id for kept in begun(played).calls] == [b, c]
    summed(played)
    played.absorb(played.result(b, "b"))
    assert shown(played) == ["[summary] a summary", "meanwhile", "c", "b"]


def test_calls_that_were_given_up_long_ago_are_remembered_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "CALLS", 4)
    monkeypatch.setattr(news, "GIVEN_UP_KEPT", 2)
    played = fresh()
    [build] = played.reply(call("remote"), signals=[played.text("build")])
    played.reply("meanwhile", signals=[played.text("go on")])
    given_up = []
    for _ in range(8):
        given_up += played.reply(call("remote"), signals=[played.text("again")])
        played.absorb(played.result(given_up[-1], cause="timeout", is_error=True))
        played.reply("too late")
    played.reply("enough", signals=[played.text("stop it")], stop=FULL)
    played.decide(make_room)
    assert [kept.id for kept in begun(played).calls] == [build, *given_up[-4:]]


def test_long_arguments_are_kept_as_a_marked_beginning() -> None:
    played = fresh()
    text = msgspec.json.encode({"what": "t" * 5_000}).decode()
    played.reply(call("remote", text), signals=[played.text("build")])
    played.reply("meanwhile", signals=[played.text("go on")], stop=FULL)
    played.decide(make_room)
    [kept] = begun(played).calls
    assert msgspec.json.decode(kept.arguments) == {"beginning": text[:1_000], "characters": len(text)}


# ---------------------------------------------------------------- no summary


@pytest.mark.parametrize(
    ("text", "reason", "told"),
    [
        ("", "", "It came to its end without a word."),
        (" \n", "", "It came to its end without a word."),
        ("", "It was parked.", "It was parked."),
    ],
)
def test_cmp_11_an_empty_summary_is_a_failure(text: str, reason: str, told: str) -> None:
    played = talked("one", "two")
    played.decide(make_room)
    child = begun(played).child
    summed(played, text, reason=reason)
    assert played.all(Uncompacted) == [Uncompacted(child, told)]
    assert played.head.compaction is None
    assert (played.head.uncompacted, played.head.uncompacted_why) == (1, told)
    assert f"{child}/compaction" not in played.timers


def test_cmp_11_two_failures_stop_it_and_it_is_said() -> None:
    played = talked("one", "two")
    for _ in range(2):
        assert is_due(played.head, WINDOW)
        played.decide(make_room)
        summed(played, "")
    assert is_due(played.head, WINDOW)
    played.decide(make_room)
    assert len(births(played)) == 2
    *_, last = played.all(Uncompacted)
    assert last.reason.startswith("It came to its end without a word. The agent's instructions and")
    assert last.reason.endswith(" of 1000 tokens.")
    assert not is_due(played.head, WINDOW)


def test_e102_a_child_that_dies_is_given_up_after_an_hour() -> None:
    played = talked("one", "two")
    played.decide(make_room)
    child = begun(played).child
    timer = played.timer(child, "compaction")
    played.now = timer.due
    played.absorb(timer)
    assert played.all(Uncompacted) == [Uncompacted(child, "It was not done within 3600 seconds.")]
    assert played.head.compaction is None
    closed = played.effects[-1]
    assert isinstance(closed, Post)
    assert isinstance(closed.signal, ClosedSignal)
    assert closed.signal.thread == child


def test_a_thread_that_closes_closes_what_sums_it_up() -> None:
    played = talked("one", "two")
    played.decide(make_room)
    child = begun(played).child
    played.absorb(played.close())
    posted = [effect.signal for effect in played.effects if isinstance(effect, Post)]
    assert [(type(signal), signal.thread) for signal in posted] == [(ClosedSignal, child)]
    assert f"{child}/compaction" not in played.timers
    assert played.head.compaction is None


def test_a_thread_that_closes_with_nothing_under_way() -> None:
    played = talked("one")
    played.absorb(played.close())
    assert not any(isinstance(effect, Post) for effect in played.effects)


def test_a_summary_that_comes_late_is_not_used() -> None:
    played = talked("one", "two")
    played.decide(make_room)
    late = Compacted(THREAD, "late", played.coming, child=begun(played).child, text="too late")
    played.absorb(played.timer(begun(played).child, "compaction"))
    step = played.absorb(late)
    assert step.outcomes == {"late": "settled already"}
    assert played.all(Summary) == []


def test_a_summary_by_a_child_that_is_not_the_one_is_not_used() -> None:
    played = talked("one", "two")
    played.decide(make_room)
    summed(played, child="another")
    assert played.all(Summary) == []
    assert played.head.compaction is not None


def test_the_timer_of_a_summary_that_is_done_does_nothing() -> None:
    played = talked("one", "two")
    played.decide(make_room)
    timer = played.timer(begun(played).child, "compaction")
    summed(played)
    assert played.timers == {}
    step = played.absorb(timer)
    assert step.outcomes == {timer.id: "settled already"}
    played.reply("x", signals=[played.text("three")], stop=FULL)
    played.decide(make_room)
    played.absorb(Due(THREAD, "old", played.coming, call=timer.call, what="compaction"))
    assert played.head.compaction is not None


def test_a_third_must_be_gained_and_twice_without_stops_it() -> None:
    played = talked("one", "two")
    for text in ("three", "four"):
        played.decide(make_room)
        summed(played)
        played.reply("full as ever", signals=[played.text(text)], stop=FULL)
    assert played.head.uncompacted == 2
    played.decide(make_room)
    *_, last = played.all(Uncompacted)
    assert last.reason.startswith("A summary left 801 tokens of 801. ")
    assert not is_due(played.head, WINDOW)


def test_a_gain_forgets_earlier_failures() -> None:
    played = talked("one", "two")
    played.decide(make_room)
    summed(played, "")
    played.decide(make_room)
    summed(played)
    played.reply("small", signals=[played.text("three")], stop=Stop(usage=Usage(100)))
    assert (played.head.uncompacted, played.head.uncompacted_why) == (0, "")


def test_cmp_08_where_the_fixed_part_is_too_big_no_summary_is_begun_and_it_is_said_once() -> None:
    played = talked("one", "two")
    huge = {"huge": tool("hug" + "e" * 50_000)}
    played.definition = msgspec.structs.replace(played.definition, tools=huge)
    played.decide(make_room)
    played.decide(make_room)
    assert births(played) == []
    [said] = played.all(Uncompacted)
    assert said.reason == (
        "A summary would not help. The agent's instructions and tools alone take about 25018 of 1000 tokens."
    )


# -------------------------------------------------------- refused for length


def test_a_refused_request_waits_for_a_summary_of_most_of_it() -> None:
    played = fresh(0)
    for turn in ("a", "b", "c", "d"):
        played.reply(turn * 3_000, signals=[played.text(turn * 3_000)])
    played.absorb(played.text("e" * 3_000))
    assert played.decide(make_room_at_once) is None
    assert begun(played).blocking
    assert begun(played).upto == 6  # all before the answer to c: 15,000 of 27,000 letters
    assert played.why == "compacting"
    assert not played.owes
    played.absorb(played.text("f"))
    assert played.why == "compacting"
    summed(played)
    assert played.why == "complete"
    assert [text[:1] for text in shown(played)] == ["[", "c", "d", "d", "e", "f"]


def test_after_a_failure_a_smaller_part_is_tried() -> None:
    played = fresh(0)
    for words in (4_000, 2_000, 2_000, 2_000, 2_000):
        played.reply("a" * 2_000, signals=[played.text("w" * words)])
    played.decide(make_room_at_once)
    summed(played, "", reason="too long for the child too")
    assert played.decide(make_room_at_once) is None
    assert [one.upto for one in played.all(Compacting)] == [6, 2]
    summed(played, "")
    stuck = played.decide(make_room_at_once)
    assert isinstance(stuck, Stuck)


def test_a_summary_under_way_is_waited_for() -> None:
    played = talked("one", "two")
    played.decide(make_room)
    assert played.why == "idle"
    played.absorb(played.text("three"))
    assert played.decide(make_room_at_once) is None
    first, again = played.all(Compacting)
    assert (again.child, again.upto, again.blocking) == (first.child, first.upto, True)
    assert played.why == "compacting"
    assert len(births(played)) == 1


def test_folding_is_tried_first_where_a_request_was_refused() -> None:
    played = folding(9_000)
    assert played.decide(make_room_at_once) is None
    assert len(played.all(Folded)) == 1
    assert played.why == "idle"


def test_a_long_result_that_the_model_has_not_seen_is_folded_where_it_does_not_fit() -> None:
    played = talked("one" * 500, "two" * 500)
    [read] = played.reply(call("read"), signals=[played.text("work")])
    played.absorb(played.result(read, "x" * 9_000))
    assert played.decide(make_room_at_once) is None
    assert played.all(Folded) == [Folded(played.head.length - 1)]
    assert played.all(Compacting) == []
    assert played.why == "complete"
    assert shown(played)[-1].startswith("x" * 600 + "\n[This is only the beginning")


def test_a_fold_that_saves_little_is_better_than_nothing() -> None:
    played = fresh(0)
    [read] = played.reply(call("read"), signals=[played.text("work")])
    played.absorb(played.result(read, "x" * 9_000))
    played.reply("seen")
    played.absorb(played.text("w" * 40_000))
    assert played.decide(_without_cuts) is None
    assert len(played.all(Folded)) == 1


def _without_cuts(step: Step, shown: Projection) -> Stuck | None:
    shown._shows.cuts.clear()
    return make_room_at_once(step, shown)


def test_what_came_last_is_too_big() -> None:
    played = fresh()
    played.reply("hello", signals=[played.text("hi")])
    played.absorb(played.text("w" * 40_000))
    stuck = played.decide(make_room_at_once)
    assert stuck is not None
    assert stuck.aside
    assert stuck.reason.startswith("Nothing can be left out of the request. What came last takes about 100")
    assert births(played) == []


def test_cmp_08_the_fixed_part_is_too_big_and_the_words_are_not_to_blame() -> None:
    played = fresh()
    played.definition = Definition("tester", instructions="i" * 40_000, window=WINDOW)
    played.absorb(played.text("hi"))
    stuck = played.decide(make_room_at_once)
    assert stuck == Stuck(
        "Nothing can be left out of the request. "
        "The agent's instructions and tools alone take about 10000 of 1000 tokens.",
        aside=False,
    )


def test_where_the_window_is_not_known_the_words_may_be_to_blame() -> None:
    played = fresh(0)
    played.absorb(played.text("hi"))
    stuck = played.decide(make_room_at_once)
    assert stuck is not None
    assert stuck.aside


def test_a_request_that_is_refused_again_after_a_summary_counts_as_a_failure() -> None:
    played = talked("one" * 1_000, "two" * 1_000, "three" * 1_000)
    for failures in (0, 1):
        assert played.decide(make_room_at_once) is None
        assert played.head.uncompacted == failures
        summed(played, "s" * 3_000)
        assert played.head.measured > 900
    stuck = played.decide(make_room_at_once)
    assert isinstance(stuck, Stuck)
    assert played.head.uncompacted == 2
    assert played.head.uncompacted_why == "The request was still too long with a summary."


def test_a_compaction_child_is_not_compacted_itself() -> None:
    played = talked("one" * 1_000, "two" * 1_000)
    played.head = msgspec.structs.replace(played.head, purpose="compaction")
    step = Step(THREAD, played.head, played.now, played.definition)
    shown = played.projection.fork()
    shown.show()
    assert make_room_at_once(step, shown) is not None
    assert step.effects == []


# ------------------------------------------------------------- asked for


def asked(played: Played) -> str:
    """A person asks for a summary: the outcome of the signal."""

    def slice(step: Step, shown: Projection) -> str:
        absorb(step, [CompactSignal(THREAD, "compact/1", step.now)])
        if step.asked_for_summary:
            begin_asked_for(step, shown)
        return step.outcomes["compact/1"]

    return played.decide(slice)


def test_a_person_asks_for_a_summary_at_any_time() -> None:
    played = fresh(0)
    played.reply("answer", signals=[played.text("one")])
    assert asked(played) == "absorbed"
    assert begun(played).upto == 2


def test_e100_one_at_a_time() -> None:
    played = talked("one", "two")
    played.decide(make_room)
    assert asked(played) == "under way already"
    assert len(births(played)) == 1


def test_there_is_nothing_to_sum_up() -> None:
    played = fresh(0)
    assert asked(played) == "absorbed"
    assert births(played) == []


def test_a_summary_is_not_summed_up() -> None:
    step = Step(THREAD, Head(purpose="compaction"), 0.0, Definition("tester"))
    assert compaction.asked_for(step) == "this thread writes a summary itself"
    assert not step.asked_for_summary


# -------------------------------------------------------------- the child


def test_e107_a_compaction_child_calls_nothing_but_its_end() -> None:
    head = Head(purpose="compaction")
    assert compaction.refuses(head, "read")
    assert not compaction.refuses(head, "close_thread")
    assert not compaction.refuses(Head(), "read")


def test_e107_its_calls_are_refused() -> None:
    played = fresh(0)
    played.absorb(played.text("work"))
    played.head = msgspec.structs.replace(played.head, purpose="compaction")
    step = Step(THREAD, played.head, played.now, played.definition)
    answer(step, [call("write"), call("no_such_tool")], Stop(), Asked(played.head.length, "t"))
    results = [message for message in step.messages if isinstance(message, Result)]
    assert [result.cause for result in results] == ["compaction", "compaction"]
    assert all("only writes a summary" in text_of(result.parts) for result in results)
    assert step.effects == []


def test_it_reports_once() -> None:
    step = Step("child", Head(parent=THREAD, purpose="compaction"), 5.0, Definition("tester"), "trace")
    compaction.report(step, "the summary")
    compaction.report(step, "", "It was closed.")
    [posted] = step.effects
    assert isinstance(posted, Post)
    signal = posted.signal
    assert isinstance(signal, Compacted)
    assert (signal.thread, signal.child, signal.text, signal.reason) == (THREAD, "child", "the summary", "")


# ------------------------------------------------------------------ facts


def test_e104_what_the_runtime_knows_stands_beside_the_summary() -> None:
    played = fresh()
    [watch, build] = played.reply(call("remote"), call("remote"), signals=[played.text("watch")])
    played.absorb(played.result(watch, subscription=True))

    def lived(step: Step, shown: Projection) -> None:
        note(step, Titled("The  tower\nof Babel"))
        note(step, Spawned("child0", watch, title="Bricks"))
        note(step, Spawned("child1", watch))
        note(step, Requested(OpenWait("w", "choice", build, "remote", prompt="Which\ncolour?")))
        note(step, Requested(OpenWait("v", "approval", build, "remote")))

    played.decide(lived)
    played.reply("on it", signals=[played.text("go on")], stop=FULL)
    played.decide(make_room)
    summed(played)
    [summary] = played.all(Summary)
    assert summary.facts.splitlines() == [
        "Title: The tower of Babel",
        "Child threads that live:",
        "- child0 (open): Bricks",
        "- child1 (open)",
        "Active subscriptions:",
        f"- {watch} of remote, since 1970-01-01 00:16:43 UTC",
        "Calls that still run:",
        f"- {build} of remote, since 1970-01-01 00:16:42 UTC",
        "People are asked:",
        f"- choice for {build} of remote: Which colour?",
        f"- approval for {build} of remote",
    ]


def test_facts_are_bounded() -> None:
    told = facts(Head(children={f"c{i}": Child("call") for i in range(60)})).splitlines()
    assert len(told) == 52
    assert told[-1] == "- and 10 more"


def test_a_quiet_thread_has_none() -> None:
    assert facts(Head()) == ""
