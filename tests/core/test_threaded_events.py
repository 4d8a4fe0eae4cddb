"""Events that are not for the thread itself: gathered, and given to children of their own."""

from typing import Any

import msgspec
import pytest

from tests.core.families import Family, begun, tool_call
from tests.core.playing import THREAD, call
from torpor.core.definition import Events
from torpor.core.effects import Spawn
from torpor.core.messages import By, Happened, Link, Reported, Spawned, Unsubscribed, text_of


def subscribed(events: Events | None = None, places: int | None = None, **fields: Any) -> tuple[Family, str]:
    """A family whose root has a subscription and has nothing else to do."""
    family = begun(**fields, **({} if events is None else {"events": events}))
    if places is not None:
        limits = msgspec.structs.replace(family.root.definition.limits, events=places)
        family.root.definition = msgspec.structs.replace(family.root.definition, limits=limits)
    [sub] = family.reply(THREAD, call("remote", '{"watch": 1}'))
    family.absorb(THREAD, family.root.result(sub, subscription=True))
    family.reply(THREAD, "Watching.")
    return family, sub


def come(family: Family, sub: str, *texts: str, thread: str = THREAD, **fields: Any) -> None:
    """Events come, in one batch."""
    played = family.kin[thread]
    family.absorb(thread, *(played.event(sub, text, associative=False, **fields) for text in texts))
    family.settle()


def temporary(family: Family) -> list[str]:
    return [id for id, thread in family.kin.items() if thread.head.purpose == "event"]


def given(family: Family, child: str) -> list[str]:
    return [text_of(event.parts) for event in family.kin[child].all(Happened)]


def test_an_event_is_worked_on_by_a_child_and_its_parent_sleeps_on() -> None:
    """E74, E75: the seed stands first, the event last, and nothing of the parent's is left unanswered."""
    family, sub = subscribed()
    requests = len(family.root.requests)
    come(family, sub, "door opened")
    assert family.root.why == "idle"
    [event] = family.root.all(Happened)
    assert event.threaded
    assert family.root.head.gathered == {}
    [child] = temporary(family)
    spawn = family.root.effects[-1]
    assert isinstance(spawn, Spawn)
    assert (spawn.born.purpose, spawn.born.call, spawn.born.name) == ("event", sub, "remote")
    assert spawn.born.lineage == (Link(THREAD, family.root.head.turned),)
    assert spawn.events == (family.root.messages.index(event) + 1,)
    [spawned] = family.root.all(Spawned)
    assert (spawned.purpose, spawned.source) == ("event", sub)
    mine = family.kin[child]
    assert [type(m).__name__ for m in mine.messages] == ["Noted", "Reported", "Happened"]
    [own] = mine.all(Happened)
    assert (own.threaded, own.associative, own.call, own.name) == (False, True, sub, "remote")
    assert mine.why == "complete"
    assert mine.shown()[-1] == "event of remote: door opened"
    family.reply(child, "A door, so what.")
    assert mine.head.state == "closed"
    assert len(family.root.requests) == requests
    assert family.root.why == "idle"
    assert family.root.head.children == {}
    assert family.root.head.used == 0


def test_e72_the_silent_end_of_a_temporary_child_is_shown_to_nobody() -> None:
    family, sub = subscribed()
    come(family, sub, "door opened")
    [child] = temporary(family)
    family.reply(child, tool_call("close_thread", thread_id=child))
    word = family.root.all(Reported)[-1]
    assert (word.what, word.owes, word.parts) == ("closed", False, ())
    family.absorb(THREAD, family.root.text("And?"))
    assert family.root.shown() == ["And?"]


def test_what_a_temporary_child_reports_wakes_the_parent() -> None:
    family, sub = subscribed()
    come(family, sub, "door opened")
    [child] = temporary(family)
    family.reply(child, tool_call("report_to_parent", report="Somebody is in."))
    word = family.root.all(Reported)[-1]
    assert (word.what, word.purpose, word.call, word.name) == ("report", "event", sub, "remote")
    assert family.root.why == "complete"
    family.reply(child, "Done.")
    assert family.kin[child].head.state == "closed"
    assert family.words(THREAD, "ended") == []


def test_last_words_of_a_temporary_child_that_closes_are_a_report() -> None:
    family, sub = subscribed()
    come(family, sub, "door opened")
    [child] = temporary(family)
    family.reply(child, tool_call("close_thread", thread_id=child, report_to_parent="Somebody is in."))
    assert family.words(THREAD, "closed") == ["Somebody is in."]
    assert family.root.why == "complete"


def test_a_temporary_child_with_something_open_lives_until_that_is_over() -> None:
    family, sub = subscribed()
    come(family, sub, "door opened")
    [child] = temporary(family)
    mine = family.kin[child]
    [a] = family.reply(child, call("remote"))
    family.absorb(child, mine.text("?"))
    family.reply(child, "Looking.")
    assert mine.head.state == "open"
    family.absorb(child, mine.result(a))
    family.reply(child, "Nobody there.")
    assert mine.head.state == "closed"


def test_a_temporary_child_that_fails_gives_its_place_back_and_says_so() -> None:
    family, sub = subscribed(places=1)
    come(family, sub, "one")
    come(family, sub, "two")
    [child] = temporary(family)
    family.kin[child].park(reason="Poison.")
    family.settle()
    assert family.words(THREAD, "parked") == ["Poison."]
    assert len(temporary(family)) == 2


def test_events_of_one_batch_go_to_one_child() -> None:
    family, sub = subscribed()
    come(family, sub, "one", "two", "three")
    [child] = temporary(family)
    assert given(family, child) == ["one", "two", "three"]


def test_no_child_gets_more_than_so_many_events() -> None:
    family, sub = subscribed(Events(most=2))
    come(family, sub, "one", "two", "three")
    assert [given(family, child) for child in temporary(family)] == [["one", "two"], ["three"]]


def test_events_are_gathered_for_a_time() -> None:
    family, sub = subscribed(Events(window=60.0))
    come(family, sub, "one")
    came = family.root.all(Happened)[0].at
    come(family, sub, "two")
    assert temporary(family) == []
    [timer] = family.root.alarms.values()
    assert (timer.due, getattr(timer, "what", ""), getattr(timer, "call", "")) == (came + 60.0, "events", sub)
    family.root.now = timer.due
    family.absorb(THREAD, timer)
    family.settle()
    [child] = temporary(family)
    assert given(family, child) == ["one", "two"]
    assert family.root.alarms == {}
    come(family, sub, "three")
    [again] = family.root.alarms.values()
    assert again.id != timer.id


def test_so_many_events_wait_no_longer() -> None:
    family, sub = subscribed(Events(window=60.0, most=2))
    come(family, sub, "one")
    come(family, sub, "two", "three")
    [child] = temporary(family)
    assert given(family, child) == ["one", "two"]
    [timer] = family.root.alarms.values()
    family.root.now = timer.due
    family.absorb(THREAD, timer)
    family.settle()
    assert given(family, temporary(family)[1]) == ["three"]


def test_all_that_was_gathered_is_given_and_its_timer_lifted() -> None:
    family, sub = subscribed(Events(window=60.0, most=2))
    come(family, sub, "one")
    come(family, sub, "two")
    assert len(temporary(family)) == 1
    assert family.root.alarms == {}


def test_the_last_event_waits_for_no_company() -> None:
    family, sub = subscribed(Events(window=60.0))
    come(family, sub, "one")
    come(family, sub, "last", final=True)
    [child] = temporary(family)
    assert given(family, child) == ["one", "last"]
    assert family.root.head.subscriptions == {}
    assert family.root.alarms == {}
    [seed] = family.kin[child].all(Reported)
    assert (seed.name, seed.call) == ("remote", sub)


def test_only_so_many_work_on_events_at_once_and_the_others_wait() -> None:
    family, sub = subscribed(places=2)
    for text in ("one", "two", "three", "four"):
        come(family, sub, text)
    first, second = temporary(family)
    assert len(family.root.head.gathered[sub].positions) == 2
    family.reply(first, "Done.")
    third = temporary(family)[2]
    assert given(family, third) == ["three", "four"]
    family.reply(second, "Done.")
    assert len(temporary(family)) == 3


def test_events_wait_while_no_more_threads_may_live() -> None:
    family, sub = subscribed(threads=1)
    family.absorb(THREAD, family.root.text("Make one."))
    child = family.spawn()
    come(family, sub, "one")
    assert temporary(family) == []
    family.reply(child, tool_call("close_thread", thread_id=child))
    assert len(temporary(family)) == 1


@pytest.mark.parametrize("limits", [{"depth": 0}, {"places": 0}])
def test_where_there_can_be_no_children_events_are_for_the_thread_itself(limits: dict[str, Any]) -> None:
    family, sub = subscribed(**limits)
    come(family, sub, "one")
    assert not family.root.all(Happened)[0].threaded
    assert family.root.why == "complete"


def test_a_child_without_a_share_of_threads_works_on_its_events_itself() -> None:
    family = begun(threads=4)
    child = family.spawn()
    assert family.kin[child].head.quota == 0
    [sub] = family.reply(child, call("remote"))
    family.absorb(child, family.kin[child].result(sub, subscription=True))
    come(family, sub, "one", thread=child)
    assert temporary(family) == []
    assert family.kin[child].head.gathered == {}


def test_subscriptions_of_a_temporary_child_work_the_same() -> None:
    family, sub = subscribed()
    come(family, sub, "one")
    [child] = temporary(family)
    [own] = family.reply(child, call("remote"))
    family.absorb(child, family.kin[child].result(own, subscription=True))
    family.reply(child, "Watching too.")
    come(family, own, "two", thread=child)
    _, grandchild = temporary(family)
    assert family.kin[grandchild].head.parent == child
    family.reply(grandchild, "Seen.")
    come(family, own, "last", thread=child, final=True)
    family.reply(temporary(family)[-1], "Seen.")
    assert family.kin[child].head.state == "closed"


def test_evt_01_events_that_come_before_the_subscription_are_kept_for_it() -> None:
    family = begun()
    [sub] = family.reply(THREAD, call("remote"))
    come(family, sub, "early")
    assert temporary(family) == []
    family.absorb(THREAD, family.root.result(sub, subscription=True))
    family.settle()
    assert given(family, temporary(family)[0]) == ["early"]


def test_events_and_their_end_before_the_subscription_are_kept_for_it() -> None:
    family = begun()
    [sub] = family.reply(THREAD, call("remote"))
    come(family, sub, "early", final=True)
    family.absorb(THREAD, family.root.result(sub, subscription=True))
    family.settle()
    assert given(family, temporary(family)[0]) == ["early"]


def test_events_of_a_call_that_opens_no_subscription_are_dropped_with_a_reason() -> None:
    family = begun(events=Events(window=60.0))
    [sub] = family.reply(THREAD, call("remote"))
    come(family, sub, "early")
    family.absorb(THREAD, family.root.result(sub))
    assert family.root.all(Unsubscribed) == [Unsubscribed(sub, "it opened no subscription")]
    assert family.root.head.gathered == {}
    assert family.root.timers == {}
    assert temporary(family) == []


def test_gathered_events_end_with_the_subscription_that_a_model_cancels() -> None:
    family, sub = subscribed(Events(window=60.0))
    family.absorb(THREAD, family.root.text("Stop watching."))
    come(family, sub, "one")
    family.reply(THREAD, tool_call("cancel_subscription", tool_call_id=sub))
    assert family.root.all(Unsubscribed)
    assert family.root.head.gathered == {}
    assert family.root.alarms == {}


def test_gathered_events_end_with_their_thread() -> None:
    family, sub = subscribed(Events(window=60.0))
    come(family, sub, "one")
    family.absorb(THREAD, family.root.close())
    assert family.root.head.gathered == {}
    assert family.root.alarms == {}


def test_a_stopped_thread_makes_no_children_until_it_goes_on() -> None:
    family, sub = subscribed()
    family.absorb(THREAD, family.root.stop())
    family.absorb(THREAD, family.root.text("Go on."))
    [again] = family.reply(THREAD, call("remote"))
    family.absorb(THREAD, family.root.result(again, subscription=True))
    family.absorb(THREAD, family.root.stop())
    come(family, again, "one")
    come(family, sub, "old")
    assert temporary(family) == []
    family.absorb(THREAD, family.root.nudge())
    family.settle()
    assert len(temporary(family)) == len(family.root.head.children) > 0


def test_events_for_children_and_for_the_thread_stand_side_by_side() -> None:
    family, sub = subscribed()
    family.absorb(
        THREAD,
        family.root.event(sub, "for a child", associative=False),
        family.root.event(sub, "for me"),
    )
    family.settle()
    assert family.root.shown() == ["event of remote: for me"]
    assert given(family, temporary(family)[0]) == ["for a child"]


@pytest.mark.parametrize(
    ("by", "outcome"),
    [
        (By("tool", verified="callback"), "unverified source"),
        (By("tool"), "unverified source"),
        (By("tool", verified="signature"), "absorbed"),
        (By("runtime"), "absorbed"),
    ],
)
def test_where_signatures_are_asked_for_others_are_dropped(by: By, outcome: str) -> None:
    family, sub = subscribed(Events(verified="signature"))
    event = msgspec.structs.replace(family.root.event(sub), by=by)
    family.absorb(THREAD, event)
    assert family.root.outcomes[event.id] == outcome
    assert len(family.root.all(Happened)) == (outcome == "absorbed")


def test_events_of_a_call_that_was_given_up_do_not_wait_for_its_result() -> None:
    """It may never come, and a child that holds them would never come to its end."""
    family = begun()
    child = family.spawn()
    mine = family.kin[child]
    [sub] = family.reply(child, call("remote"))
    come(family, sub, "early", thread=child)
    assert mine.head.gathered[sub].positions
    family.absorb(child, mine.result(sub, cause="timeout", is_error=True))
    family.settle()
    assert mine.head.gathered == {}
    [temporary_] = temporary(family)
    assert given(family, temporary_) == ["early"]
    family.reply(temporary_, "Seen.")
    family.reply(child, "No result.")
    assert family.words(THREAD, "ended") == ["No result."]
