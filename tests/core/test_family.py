"""Threads and their children: made, spoken to, reporting, coming to an end."""

from typing import Any

import msgspec
import pytest

from tests.core.families import Family, begun, tool_call
from tests.core.playing import THREAD, Played, call
from torpor.core.calls import note
from torpor.core.definition import Limits
from torpor.core.effects import Cancel, Invoke, Post, Spawn
from torpor.core.head import Child
from torpor.core.messages import (
    Addressed,
    Adopted,
    Born,
    By,
    Closed,
    Equipped,
    Happened,
    Informed,
    Link,
    Noted,
    Reported,
    Result,
    Resumed,
    Spawned,
    Stopped,
    Text,
    Titled,
    text_of,
)
from torpor.core.signals import BornSignal, ClosedSignal, ReportedSignal, StoppedSignal, Told
from torpor.core.spawning import child_id
from torpor.core.thread import evolve


def last_error(played: Played) -> str:
    result = played.all(Result)[-1]
    assert result.is_error, result
    return text_of(result.parts)


def report(family: Family, child: str, text: str = "found it") -> None:
    family.reply(child, tool_call("report_to_parent", report=text))


def closing(family: Family, child: str, **more: Any) -> None:
    family.reply(child, tool_call("close_thread", thread_id=child, **more))


# ------------------------------------------------------------------ birth


def test_a_child_is_born_with_its_parents_history_up_to_the_turn_that_made_it() -> None:
    """E35, E90: the lineage ends with the turn that is committed with the birth."""
    family = begun()
    [a] = family.root.reply(family.spawning(THREAD, "Count the\nfiles."))
    spawn = family.root.effects[-1]
    assert isinstance(spawn, Spawn)
    child = child_id(a)
    assert spawn.id == f"{child}/born"
    assert len(child) == 20
    assert spawn.born.lineage == (Link(THREAD, family.root.head.turned),)
    assert "Count the" in spawn.born.arguments
    assert (spawn.born.thread, spawn.born.parent, spawn.born.ancestors) == (child, THREAD, (THREAD,))
    assert spawn.born.by == By("thread", THREAD, "store")
    assert spawn.born.title == "Count the files."
    kept = family.root.head.children[child]
    assert (kept.call, kept.purpose, kept.state, kept.title) == (a, "child", "open", "Count the files.")
    assert child in text_of(family.root.all(Result)[-1].parts)
    assert family.root.why == "complete"
    family.settle()
    born = family.kin[child].all(Born)[0]
    assert (born.agent, born.purpose, born.parent, born.call) == ("tester", "child", THREAD, a)
    [seed] = family.kin[child].all(Reported)
    assert (seed.what, seed.thread, seed.owes, text_of(seed.parts)) == (
        "born",
        THREAD,
        True,
        "Count the\nfiles.",
    )
    assert family.kin[child].head.heard is False
    assert family.kin[child].why == "complete"
    family.reply(child, "Counting.")


def test_a_repeated_birth_changes_nothing() -> None:
    """E76."""
    family = begun()
    child = family.spawn()
    born = family.root.effects[-1]
    assert isinstance(born, Spawn)
    again = msgspec.structs.replace(born.born, id="again")
    before = family.kin[child].messages.copy()
    family.absorb(child, again)
    assert family.kin[child].outcomes["again"] == "born already"
    assert family.kin[child].messages == before


def test_a_child_takes_over_what_its_parent_is_equipped_with() -> None:
    family = begun()
    family.root.decide(lambda step, _: note(step, Equipped("http://s", "hash")))
    child = family.spawn()
    assert family.kin[child].head.toolsets == {"http://s": "hash"}


def test_e88_a_fresh_child_continues_nothing() -> None:
    """E88, E89."""
    family = begun()
    child = family.spawn(fresh_context=True)
    assert family.kin[child].head.lineage == ()
    grandchild = family.spawn(child)
    assert family.kin[grandchild].head.lineage == (Link(child, family.kin[child].head.turned),)
    assert family.kin[grandchild].head.ancestors == (THREAD, child)


def test_a_child_of_a_child_continues_both() -> None:
    family = begun()
    child = family.spawn()
    grandchild = family.spawn(child)
    assert family.kin[grandchild].head.lineage == (
        Link(THREAD, family.root.head.turned),
        Link(child, family.kin[child].head.turned),
    )
    family.reply(grandchild, "Here I am.")


def test_several_children_of_one_turn_have_ids_of_their_own() -> None:
    family = begun()
    family.reply(THREAD, family.spawning(THREAD, "one"), family.spawning(THREAD, "two"))
    assert len(family.kin) == 3
    assert len({thread.all(Reported)[0].parts for id, thread in family.kin.items() if id != THREAD}) == 2


@pytest.mark.parametrize("given", [[], ["root", "root"], ["other"], ["x" * 500] * 50])
def test_e67_who_does_not_know_where_it_is_makes_no_children(given: list[str]) -> None:
    """E67: a child that takes itself for its parent is told where it is, and to do its task."""
    family = begun()
    child = family.spawn()
    for id in (THREAD, child):
        family.reply(id, tool_call("spawn_thread", instructions="Go on.", child_of=given))
        told = last_error(family.kin[id])
        assert id in told
        assert "do it yourself" in told
        assert len(told) < 4_000
        family.reply(id, "All right.")
    assert len(family.kin) == 2


def test_the_id_of_a_root_stands_for_root() -> None:
    family = begun()
    family.reply(THREAD, tool_call("spawn_thread", instructions="Go.", child_of=[THREAD]))
    assert len(family.kin) == 2


def test_e83_instructions_are_needed() -> None:
    family = begun()
    family.reply(THREAD, tool_call("spawn_thread", child_of=["root"]))
    assert family.root.last_results()[0].cause == "invalid_arguments"
    family.reply(THREAD, tool_call("spawn_thread", child_of=["root"], instructions=" \n"))
    assert "empty" in last_error(family.root)
    assert len(family.kin) == 1


def test_a_family_is_only_so_deep() -> None:
    family = begun(depth=2)
    child = family.spawn()
    grandchild = family.spawn(child)
    family.reply(grandchild, family.spawning(grandchild))
    assert "at most 2 below" in last_error(family.kin[grandchild])


def test_only_so_many_children_work_at_once() -> None:
    family = begun(children=2)
    first, _ = family.spawn(), family.spawn()
    family.reply(THREAD, family.spawning(THREAD))
    assert "as many as may" in last_error(family.root)
    family.reply(first, "Done.")
    family.spawn()


def test_only_so_many_threads_live_below_a_root() -> None:
    family = begun(threads=3)
    for _ in range(3):
        child = family.spawn()
    family.reply(THREAD, family.spawning(THREAD))
    assert "as many threads live" in last_error(family.root)
    family.reply(child, family.spawning(child))
    assert "as many threads live" in last_error(family.kin[child])
    closing(family, child)
    family.spawn()
    assert family.root.head.used == 3


def test_quotas_are_shared_out_and_come_back() -> None:
    family = begun(threads=1_000)
    child = family.spawn()
    quota = family.kin[child].head.quota
    assert quota == 999 // 8
    assert family.root.head.used == quota + 1
    grandchild = family.spawn(child)
    assert family.kin[grandchild].head.quota == (quota - 1) // 8
    closing(family, child)
    assert family.root.head.used == 0


def test_a_child_that_rests_gives_back_what_it_has_not_used() -> None:
    family = begun(threads=20)
    child = family.spawn()
    quota = family.kin[child].head.quota
    assert (quota, family.root.head.used) == (2, 3)
    family.reply(child, "Done.")
    assert family.root.head.used == 1
    family.reply(THREAD, tool_call("send_message_to_child", thread_id=child, message="Go on."))
    assert family.root.head.used == 3
    family.absorb(THREAD, family.root.stop())
    family.settle()
    assert family.root.head.used == 1
    family.absorb(child, family.kin[child].close())
    family.settle()
    assert family.root.head.used == 0


def test_a_child_that_rests_is_not_spoken_to_while_all_places_are_taken() -> None:
    family = begun(threads=20)
    child = family.spawn()
    family.reply(child, "Done.")
    while family.root.head.used <= 18:
        family.spawn()
    family.reply(THREAD, tool_call("send_message_to_child", thread_id=child, message="Go on."))
    assert "as many threads work below this one" in last_error(family.root)
    assert family.root.head.children[child].state == "ended"


def test_who_is_no_child_any_more_takes_no_place() -> None:
    family = begun(threads=20)
    before = family.root.head
    after = evolve(before, Noted(2_000.0, Addressed("gone")))
    assert after == msgspec.structs.replace(before, length=before.length + 1)


def test_a_root_can_have_all_the_children_it_may_have() -> None:
    family = begun(completions=1_000, loopbacks=1_000)
    for _ in range(Limits().children):
        family.root.reply(family.spawning(THREAD))
    assert len(family.root.head.children) == Limits().children
    assert family.root.head.used <= Limits().threads


# ---------------------------------------------------------------- reports


def test_a_report_wakes_the_parent() -> None:
    """E73: it carries the child's id."""
    family = begun()
    child = family.spawn()
    family.reply(THREAD, "Waiting.", call("sleep_until_event_or_input"))
    report(family, child, "42 files")
    assert family.words(THREAD, "report") == ["42 files"]
    word = family.root.all(Reported)[-1]
    assert (word.thread, word.purpose, word.owes, word.by) == (
        child,
        "child",
        True,
        By("thread", child, "store"),
    )
    assert family.root.why == "complete"
    assert any(child in line for line in family.root.shown())
    assert family.kin[child].head.heard


def test_a_report_waits_for_calls_that_run() -> None:
    family = begun()
    child = family.spawn()
    [a] = family.reply(THREAD, call("remote"))
    report(family, child)
    assert family.root.why == "waiting"
    family.absorb(THREAD, family.root.result(a))
    assert family.root.shown()[-1].endswith("found it")


def test_a_report_with_a_deadline_of_its_own_does_not_wait_for_ever() -> None:
    family = begun()
    child = family.spawn()
    family.reply(THREAD, call("remote"))
    signal = ReportedSignal(
        THREAD, "r", family.root.coming, By("thread", child), child=child, start_by=5_000.0
    )
    family.absorb(THREAD, signal)
    assert family.root.why == "waiting"
    family.root.now = 5_000.0
    family.absorb(THREAD, family.root.timers["r/due"])
    assert family.root.why == "complete"


@pytest.mark.parametrize("arguments", [{"report": ""}, {"report": " "}])
def test_an_empty_report_is_none(arguments: dict[str, str]) -> None:
    family = begun()
    child = family.spawn()
    family.reply(child, tool_call("report_to_parent", **arguments))
    assert "empty" in last_error(family.kin[child])
    assert family.words(THREAD) == []


def test_a_root_has_nobody_to_report_to() -> None:
    family = begun()
    family.reply(THREAD, tool_call("report_to_parent", report="hello"))
    assert "no parent" in last_error(family.root)
    assert not [effect for effect in family.root.effects if isinstance(effect, Post)]


def test_evt_02_every_report_of_forty_children_is_recorded_once() -> None:
    family = begun(completions=1_000, loopbacks=1_000)
    children = [family.spawn(text=f"task {i}") for i in range(40)]
    for i, child in enumerate(children):
        family.kin[child].reply(tool_call("report_to_parent", report=f"done {i}"))
    family.carry()
    meanwhile = [family.inbox[child.thread] for child in family.kin.values()]
    assert sum(map(len, meanwhile)) == 40
    half = family.inbox[THREAD][:20]
    family.inbox[THREAD] = family.inbox[THREAD][20:]
    family.root.reply("Working.", meanwhile=half)
    family.settle()
    assert sorted(family.words(THREAD, "report")) == sorted(f"done {i}" for i in range(40))


def test_who_is_no_child_is_not_listened_to() -> None:
    family = begun()
    signal = ReportedSignal(THREAD, "r", 2_000.0, By("thread", "other"), child="other", parts=(Text("hi"),))
    adopted = msgspec.structs.replace(signal, id="a", what="adopted")
    family.absorb(THREAD, signal, adopted)
    assert set(family.root.outcomes.values()) >= {"no such thread in its family"}
    assert family.words(THREAD) == []
    assert family.root.head.children == {}


# ------------------------------------------------------------------- rest


def test_last_words_stand_for_a_report_that_never_came() -> None:
    family = begun()
    child = family.spawn()
    family.reply(THREAD, "Waiting.")
    family.reply(child, "It is 42.")
    assert family.words(THREAD, "ended") == ["It is 42."]
    assert family.root.why == "complete"
    assert family.root.head.children[child].state == "ended"
    assert [note.what for note in family.kin[child].all(Informed)] == ["ended"]
    family.absorb(child, family.kin[child].text("Really?"))
    family.reply(child, "Really.")
    assert family.words(THREAD, "ended") == ["It is 42."]


def test_without_words_the_end_is_told_all_the_same() -> None:
    family = begun()
    child = family.spawn()
    family.reply(child, " ")
    assert family.words(THREAD, "ended") == [""]


def test_who_has_reported_comes_to_its_end_without_a_word() -> None:
    family = begun()
    child = family.spawn()
    family.reply(THREAD, "Waiting.")
    report(family, child)
    family.reply(THREAD, "Thanks.")
    family.reply(child, "Done.")
    word = family.root.all(Reported)[-1]
    assert (word.what, word.owes) == ("rested", False)
    assert family.root.why == "idle"
    assert family.root.head.children[child].state == "ended"


def test_evt_05_what_still_waits_has_not_ended() -> None:
    """A call that runs on, a subscription, a sleep, or a child that works: told once, when all is over."""
    family = begun()
    child = family.spawn()
    mine = family.kin[child]
    [a] = family.reply(child, call("remote"))
    family.absorb(child, mine.text("And?"))
    family.reply(child, "Still at it.")
    assert family.words(THREAD) == []
    family.absorb(child, mine.result(a, subscription=True))
    family.reply(child, "Subscribed.")
    family.absorb(child, mine.event(a, final=True))
    [b] = family.reply(child, call("sleep_until_event_or_input"))
    assert family.words(THREAD) == []
    family.absorb(child, mine.text("Up!"))
    grandchild = family.spawn(child)
    family.reply(child, "My child works.")
    assert family.words(THREAD) == []
    family.reply(grandchild, "Here you are.")
    family.reply(child, "So that was it.")
    assert family.words(THREAD, "ended") == ["So that was it."]
    assert b in mine.results()


def test_the_end_of_a_grandchild_that_has_reported_is_enough() -> None:
    """Nobody's end waits for one who has nothing more to say."""
    family = begun()
    child = family.spawn()
    grandchild = family.spawn(child)
    report(family, grandchild)
    family.reply(child, "I know now.")
    assert family.words(THREAD) == []
    family.reply(grandchild, "Done.")
    assert family.words(THREAD, "ended") == ["I know now."]


def test_what_comes_after_a_report_on_the_way_is_told() -> None:
    """A report may be of how far it is: who works on with a tool's result has more to say."""
    family = begun()
    child = family.spawn()
    report(family, child, "A tenth is done.")
    [read] = family.reply(child, tool_call("read"))
    family.absorb(child, family.kin[child].result(read, "42"))
    family.reply(child, "The answer is 42.")
    assert family.words(THREAD, "report") == ["A tenth is done."]
    assert family.words(THREAD, "ended") == ["The answer is 42."]
    assert family.root.why == "complete"


def test_what_comes_of_a_message_that_crossed_an_end_is_told() -> None:
    """The child takes its own child for one that has ended, and so comes to an end too early."""
    family = begun()
    child = family.spawn()
    grandchild = family.spawn(child)
    mine = family.kin[child]
    family.reply(child, "My child works.")
    family.kin[grandchild].reply("Half of it.")
    mine.absorb(mine.text("Have it do the rest."))
    mine.reply(tool_call("send_message_to_child", thread_id=grandchild, message="The rest."))
    family.settle()
    family.reply(child, "It works on.")
    assert family.words(THREAD, "ended") == ["It works on."]
    family.reply(grandchild, "All of it.")
    family.reply(child, "Here is all of it.")
    assert family.words(THREAD, "ended") == ["It works on.", "Here is all of it."]
    assert family.root.why == "complete"


def test_last_words_are_kept_until_the_parent_hears_something() -> None:
    """They stand for a report though the end comes later than the turn; of a long text the beginning."""
    family = begun()
    child = family.spawn()
    mine = family.kin[child]
    grandchild = family.spawn(child)
    report(family, grandchild)
    family.reply(child, "x" * 5_000)
    assert mine.head.last_words == "x" * 4_000
    closing(family, grandchild)
    assert family.words(THREAD, "ended") == ["x" * 4_000]
    assert mine.head.last_words == ""
    family.absorb(child, mine.text("And?"))
    family.reply(child, "That was all.")
    family.reply(THREAD, tool_call("send_message_to_child", thread_id=child, message="More."))
    assert mine.head.last_words == ""
    assert family.root.head.last_words == ""


# ---------------------------------------------------------------- message


def test_a_message_lets_a_child_go_on_and_owe_a_report_again() -> None:
    family = begun()
    child = family.spawn()
    family.reply(child, "One.")
    family.reply(THREAD, tool_call("send_message_to_child", thread_id=child, message="And two?"))
    assert family.root.head.children[child].state == "open"
    assert family.root.all(Addressed) == [Addressed(child)]
    assert family.words(child, "told") == ["And two?"]
    assert family.kin[child].why == "complete"
    family.reply(child, "Two.")
    assert family.words(THREAD, "ended") == ["One.", "Two."]


def test_a_message_ends_a_childs_sleep() -> None:
    family = begun()
    child = family.spawn()
    [a] = family.reply(child, call("sleep_until_event_or_input"))
    family.reply(THREAD, tool_call("send_message_to_child", thread_id=child, message="Up."))
    assert "a message of the parent thread" in text_of(family.kin[child].all(Result)[-1].parts)
    assert family.kin[child].results()[a] == "woken"


@pytest.mark.parametrize("message", ["", "  "])
def test_an_empty_message_is_not_sent(message: str) -> None:
    family = begun()
    child = family.spawn()
    family.reply(THREAD, tool_call("send_message_to_child", thread_id=child, message=message))
    assert "empty" in last_error(family.root)
    assert family.words(child, "told") == []


def test_messages_go_to_living_children_of_ones_own_only() -> None:
    family = begun()
    child = family.spawn()
    grandchild = family.spawn(child)
    for id in (grandchild, "nobody", THREAD):
        family.reply(THREAD, tool_call("send_message_to_child", thread_id=id, message="Hi."))
        assert child in last_error(family.root)
    closing(family, child)
    family.reply(THREAD, tool_call("send_message_to_child", thread_id=child, message="Hi."))
    assert "Living: none" in last_error(family.root)


def test_who_is_no_parent_is_not_listened_to() -> None:
    family = begun()
    child = family.spawn()
    told = Told(child, "t", 2_000.0, By("thread", "other"), sender="other", parts=(Text("Obey."),))
    family.absorb(child, told)
    assert family.kin[child].outcomes["t"] == "no such thread in its family"
    assert family.words(child, "told") == []


# ------------------------------------------------------------------ close


def test_a_child_closes_itself_with_a_report() -> None:
    """E71: the call is answered, and nothing waits for it."""
    family = begun()
    child = family.spawn()
    family.reply(THREAD, "Waiting.")
    closing(family, child, report_to_parent="All done.")
    mine = family.kin[child]
    assert mine.head.state == "closed"
    assert not mine.head.pending
    assert mine.all(Result)[-1].cause == "decided"
    word = family.root.all(Reported)[-1]
    assert (word.what, text_of(word.parts), word.owes) == ("closed", "All done.", True)
    assert family.root.head.children == {}
    assert family.root.why == "complete"
    assert not family.words(THREAD, "ended")


def test_a_silent_end_after_a_report_is_told_and_wakes_nobody() -> None:
    family = begun()
    child = family.spawn()
    family.reply(THREAD, "Waiting.")
    report(family, child)
    family.reply(THREAD, "Thanks.")
    closing(family, child)
    assert family.root.all(Reported)[-1].owes is False
    assert family.root.why == "idle"


def test_a_silent_end_without_a_report_wakes_the_parent() -> None:
    family = begun()
    child = family.spawn()
    family.reply(THREAD, "Waiting.")
    closing(family, child)
    assert family.root.all(Reported)[-1].owes is True
    assert family.root.why == "complete"


def test_e68_a_root_is_closed_by_people() -> None:
    family = begun()
    family.reply(THREAD, tool_call("close_thread", thread_id=THREAD))
    assert "root" in last_error(family.root)
    assert family.root.head.state == "open"
    assert family.root.why == "complete"


def test_e69_a_thread_closes_only_itself() -> None:
    family = begun()
    child, other = family.spawn(), family.spawn()
    family.reply(child, tool_call("close_thread", thread_id=other))
    told = last_error(family.kin[child])
    assert child in told
    assert other in told
    assert {thread.head.state for thread in family.kin.values()} == {"open"}


def test_evt_07_close_thread_without_arguments_is_answered() -> None:
    """EVT-07, E70: an error with the call's own id, and one more completion."""
    family = begun()
    child = family.spawn()
    [a] = family.reply(child, call("close_thread", "{}"))
    result = family.kin[child].all(Result)[-1]
    assert (result.call, result.cause, result.is_error) == (a, "invalid_arguments", True)
    assert family.kin[child].why == "complete"
    family.reply(child, "Well.")


def test_evt_04_a_child_that_closes_cancels_what_it_holds_and_says_so() -> None:
    family = begun()
    child = family.spawn()
    mine = family.kin[child]
    [job] = family.reply(child, call("remote"))
    family.absorb(child, mine.text("?"))
    [sub] = family.reply(child, call("remote"))
    family.absorb(child, mine.result(sub, subscription=True))
    grandchild = family.spawn(child)
    closing(family, child, report_to_parent="Enough.")
    told = family.words(THREAD, "closed")[0]
    assert told.startswith("Enough.")
    for one in (job, sub, grandchild):
        assert one in told
    assert {effect.call for effect in mine.effects if isinstance(effect, Cancel)} == {job, sub}
    assert family.kin[grandchild].head.state == "closed"
    late = mine.result(job, "late")
    family.absorb(child, late)
    assert mine.outcomes[late.id] == "closed"


def test_a_call_of_the_turn_that_closes_is_not_sent() -> None:
    family = begun()
    child = family.spawn()
    family.reply(child, tool_call("close_thread", thread_id=child), call("remote"), call("read"))
    mine = family.kin[child]
    assert not mine.head.pending
    sent = {effect.call for effect in mine.effects if isinstance(effect, Invoke)}
    assert sent == {effect.call for effect in mine.effects if isinstance(effect, Cancel)}


def test_what_came_meanwhile_is_looked_at_before_a_thread_closes() -> None:
    family = begun()
    child = family.spawn()
    mine = family.kin[child]
    told = Told(child, "t", mine.coming, By("thread", THREAD), sender=THREAD, parts=(Text("One more."),))
    mine.reply(tool_call("close_thread", thread_id=child), meanwhile=[told])
    assert "news that came meanwhile" in last_error(mine)
    assert mine.head.state == "open"
    assert mine.why == "complete"


def test_a_person_closes_a_child() -> None:
    family = begun()
    child = family.spawn()
    family.reply(THREAD, "Waiting.")
    family.absorb(child, ClosedSignal(child, "c", 2_000.0, By("person", "anna")))
    family.settle()
    assert "A person closed it" in family.words(THREAD, "closed")[0]
    assert family.root.why == "complete"


def test_e84_children_close_with_their_parent() -> None:
    """E84: and do not tell the one that closed them."""
    family = begun()
    child = family.spawn()
    grandchild = family.spawn(child)
    great = family.spawn(grandchild)
    before = len(family.kin[child].messages)
    family.absorb(THREAD, family.root.close())
    family.settle()
    assert {thread.head.state for thread in family.kin.values()} == {"closed"}
    assert len([m for m in family.kin[child].messages[before:] if isinstance(m, Reported)]) == 0
    assert family.words(THREAD, "closed") == []
    assert family.kin[great].all(Closed)


def test_children_of_a_thread_that_closes_can_be_adopted() -> None:
    family = begun(orphans="adopt")
    child = family.spawn()
    grandchild = family.spawn(child)
    quota = family.kin[grandchild].head.quota
    closing(family, child, report_to_parent="Over to you.")
    assert set(family.root.head.children) == {grandchild}
    assert family.root.head.used == quota + 1
    assert family.kin[grandchild].head.parent == THREAD
    assert family.kin[grandchild].head.ancestors == (THREAD,)
    assert family.kin[grandchild].all(Adopted) == [Adopted(THREAD, (THREAD,))]
    assert family.words(THREAD, "adopted") == [""]
    family.reply(grandchild, "42.")
    assert family.words(THREAD, "ended") == ["42."]
    family.reply(THREAD, tool_call("send_message_to_child", thread_id=grandchild, message="More."))
    assert family.words(grandchild, "told") == ["More."]
    family.absorb(THREAD, family.root.close())
    family.settle()
    assert family.kin[grandchild].head.state == "closed"


def test_temporary_children_can_be_adopted_too() -> None:
    family = begun(orphans="adopt")
    child = family.spawn()
    mine = family.kin[child]
    [sub] = family.reply(child, call("remote"))
    family.absorb(child, mine.result(sub, subscription=True))
    family.absorb(child, mine.event(sub, associative=False))
    family.settle()
    [temporary] = mine.head.children
    closing(family, child)
    assert family.root.head.children[temporary].purpose == "event"
    family.reply(temporary, "Looked at it.")
    assert family.root.head.children == {}
    assert family.kin[temporary].head.state == "closed"


def test_e85_a_report_that_meets_a_closed_parent_comes_back() -> None:
    family = begun()
    child = family.spawn()
    family.root.absorb(family.root.close())
    family.kin[child].reply(tool_call("report_to_parent", report="42"))
    [post] = [effect for effect in family.kin[child].effects if isinstance(effect, Post)]
    assert post.back
    family.root.absorb(post.signal)
    assert family.root.outcomes[post.signal.id] == "closed"
    back = family.root.effects[-1]
    assert isinstance(back, Post)
    family.kin[child].absorb(back.signal)
    word = family.kin[child].all(Reported)[-1]
    assert (word.what, word.thread, word.owes) == ("undelivered", THREAD, False)
    assert len([effect for effect in family.kin[child].effects if isinstance(effect, Post)]) == 1


def test_a_report_that_meets_a_closed_parent_goes_on_to_who_adopted_the_child() -> None:
    family = begun(orphans="adopt")
    child = family.spawn()
    grandchild = family.spawn(child)
    family.kin[child].reply(tool_call("close_thread", thread_id=child))
    family.kin[grandchild].reply(tool_call("report_to_parent", report="42"))
    family.settle()
    assert family.words(THREAD, "report") == ["42"]


def test_a_message_that_meets_a_closed_child_comes_back() -> None:
    family = begun()
    child = family.spawn()
    family.root.reply(tool_call("send_message_to_child", thread_id=child, message="Hi."))
    family.kin[child].reply(tool_call("close_thread", thread_id=child))
    family.settle()
    assert family.words(THREAD, "undelivered") == [f"The thread {child} is closed."]
    assert family.root.head.children == {}
    assert family.root.head.used == 0


def test_notices_that_meet_a_closed_thread_are_not_answered() -> None:
    family = begun()
    child = family.spawn()
    family.absorb(THREAD, family.root.close())
    family.settle()
    before = len(family.kin[child].effects)
    for what in ("undelivered", "adopted"):
        family.absorb(child, Told(child, what, 2_000.0, sender=THREAD, what=what))
    family.absorb(THREAD, ReportedSignal(THREAD, "p", 2_000.0, child=child, what="parked"))
    family.absorb(child, BornSignal(child, "b", 2_000.0))
    assert len(family.kin[child].effects) == before


def test_a_child_that_is_not_there_any_more_is_a_child_no_more() -> None:
    family = begun()
    child = family.spawn()
    del family.kin[child]
    family.root.reply(tool_call("send_message_to_child", thread_id=child, message="Hi."))
    family.settle()
    assert family.root.head.children == {}
    assert family.root.head.used == 0


# ------------------------------------------------------- stopped and parked


def test_sub_02_a_stop_reaches_all_that_lives_below() -> None:
    family = begun()
    one, two = family.spawn(), family.spawn()
    grandchild = family.spawn(one)
    [job] = family.reply(two, call("remote"))
    family.absorb(THREAD, family.root.stop())
    family.settle()
    assert {thread.head.state for thread in family.kin.values()} == {"stopped"}
    assert job in family.kin[two].cancelled
    assert family.words(THREAD) == []
    assert {thread.why for thread in family.kin.values()} == {"stopped"}
    assert family.kin[grandchild].all(Stopped)[0].why


def test_sub_04_a_late_result_of_a_stopped_child_starts_nothing() -> None:
    family = begun()
    child = family.spawn()
    [job] = family.reply(child, call("remote"))
    family.absorb(THREAD, family.root.stop())
    family.settle()
    family.absorb(child, family.kin[child].result(job, "late"))
    assert family.kin[child].why == "stopped"


def test_sub_01_a_stopped_child_tells_its_parent_who_goes_on() -> None:
    family = begun()
    child = family.spawn()
    before = len(family.root.messages)
    family.absorb(child, StoppedSignal(child, "s", 2_000.0, By("person")))
    family.settle()
    [word] = family.root.messages[before:]
    assert isinstance(word, Reported)
    assert (word.what, word.owes) == ("stopped", False)
    assert family.root.head.children[child].state == "stopped"
    assert family.root.head.state == "open"


def test_a_second_stop_reaches_those_who_have_begun_anew() -> None:
    family = begun()
    child = family.spawn()
    family.absorb(THREAD, family.root.stop())
    family.settle()
    family.absorb(child, family.kin[child].text("Go on."))
    assert family.kin[child].head.state == "open"
    again = family.root.stop()
    family.absorb(THREAD, again)
    family.settle()
    assert family.root.outcomes[again.id] == "stopped already"
    assert family.kin[child].head.state == "stopped"


def test_a_parents_message_resumes_whom_its_own_stop_has_stopped() -> None:
    family = begun()
    child = family.spawn()
    family.absorb(THREAD, family.root.stop())
    family.settle()
    family.absorb(THREAD, family.root.text("Go on."))
    family.reply(THREAD, tool_call("send_message_to_child", thread_id=child, message="Go on."))
    assert family.kin[child].why == "complete"
    assert family.kin[child].all(Resumed)


def test_a_parents_message_does_not_resume_whom_a_person_has_stopped() -> None:
    family = begun()
    child = family.spawn()
    family.absorb(child, StoppedSignal(child, "s", 2_000.0, By("person")))
    family.settle()
    family.reply(THREAD, tool_call("send_message_to_child", thread_id=child, message="Go on."))
    assert family.kin[child].why == "stopped"
    assert [word.what for word in family.root.all(Reported)] == ["stopped", "stopped"]
    assert family.root.head.children[child].state == "stopped"
    family.absorb(child, family.kin[child].nudge())
    assert family.kin[child].why == "complete"
    assert any("Go on." in line for line in family.kin[child].shown())


def test_a_parked_child_tells_its_parent() -> None:
    family = begun()
    child = family.spawn()
    family.reply(THREAD, "Waiting.")
    family.kin[child].park(reason="Too much.")
    family.settle()
    word = family.root.all(Reported)[-1]
    assert (word.what, text_of(word.parts), word.owes) == ("parked", "Too much.", True)
    assert family.root.head.children[child].state == "parked"
    family.reply(THREAD, tool_call("send_message_to_child", thread_id=child, message="Less, then."))
    assert family.kin[child].why == "complete"
    report(family, child)
    family.kin[child].park(reason="Again.")
    family.settle()
    assert family.root.all(Reported)[-1].owes is False


def test_a_parked_root_tells_nobody() -> None:
    family = begun()
    family.root.park(reason="Too much.")
    assert family.root.head.state == "parked"
    assert family.root.effects == []


def test_a_stopped_child_that_was_adopted_keeps_its_place_in_the_family() -> None:
    family = begun(orphans="adopt")
    child = family.spawn()
    grandchild = family.spawn(child)
    family.absorb(grandchild, StoppedSignal(grandchild, "s", 2_000.0, By("person")))
    closing(family, child)
    assert family.kin[grandchild].head.parent == THREAD
    assert family.kin[grandchild].head.state == "stopped"
    assert family.root.head.children[grandchild].state == "stopped"


@pytest.mark.parametrize("end", ["ended", "parked"])
def test_nobody_waits_for_an_adopted_child_that_works_no_more(end: str) -> None:
    family = begun(orphans="adopt")
    child = family.spawn()
    grandchild = family.spawn(child)
    great = family.spawn(grandchild)
    if end == "ended":
        family.reply(great, "That is all.")
    else:
        family.kin[great].park(reason="Too much.")
        family.settle()
    closing(family, grandchild, report_to_parent="Over to you.")
    assert family.kin[child].head.children[great].state == end
    told = [(word.what, word.owes) for word in family.kin[child].all(Reported) if word.thread == great]
    assert told == [("adopted", False), ("rested", False) if end == "ended" else ("parked", True)]
    family.reply(child, "All done.")
    assert family.words(THREAD, "ended") == ["All done."]


# ------------------------------------------------------------------ title


def test_a_title_is_one_line() -> None:
    played = Played()
    played.absorb(played.text())
    played.reply(tool_call("set_title", title="  Build\nwatch " + "x" * 500))
    [note] = played.all(Titled)
    assert note.title.startswith("Build watch xxx")
    assert len(note.title) == 200
    assert played.head.title == note.title
    played.reply(tool_call("set_title", title=" "))
    assert "empty" in last_error(played)
    assert played.head.title == note.title


def test_facts_of_a_family_are_kept_in_the_head() -> None:
    family = begun()
    child = family.spawn()
    [spawned] = family.root.all(Spawned)
    assert spawned.child == child
    assert isinstance(family.root.head.children[child], Child)
    assert family.root.all(Happened) == []
