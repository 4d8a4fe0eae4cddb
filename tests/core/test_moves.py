"""Threads that go from one store to another: what their heads keep, and what is rewritten on the way."""

import msgspec

from torpor.core.effects import Cancel, Check, Choose, Effect, Invoke, Notify, Post, Spawn
from torpor.core.messages import (
    Arrived,
    Born,
    Call,
    Equipped,
    Message,
    Moved,
    Noted,
    OpenWait,
    Requested,
    Result,
    Turn,
)
from torpor.core.moves import moved_effect, moved_signal
from torpor.core.signals import BornSignal, Nudged
from torpor.core.thread import fold

OLD, NEW, OTHER = "http://old", "http://new", "http://other"
SERVERS = {OLD: NEW}
CALLS = (Call("a", "build", server=OLD), Call("b", "watch", server=OLD), Call("c", "check", server=OTHER))
LIVED: tuple[Message, ...] = (
    Noted(1, Born("worker")),
    Noted(1, Equipped(OLD, "hash")),
    Noted(1, Equipped(OTHER, "other")),
    Turn(2, 3, 0, CALLS),
    Result(3, "b", subscription=True),
    Noted(3, Requested(OpenWait("t.a.choice", "choice", "a", "build", server=OLD))),
)


def test_a_thread_that_left_is_closed_and_says_where_it_went() -> None:
    head = fold((*LIVED, Noted(9, Moved("sqlite:///there.db"))))
    assert (head.state, head.reason) == ("closed", "It was moved to sqlite:///there.db.")
    assert (head.pending, head.subscriptions, head.waits) == ({}, {}, {})


def test_a_thread_that_arrived_is_as_it_was() -> None:
    before = fold(LIVED)
    after = fold((*LIVED, Noted(9, Arrived("sqlite:///here.db"))))
    assert after == msgspec.structs.replace(before, length=7)


def test_what_is_open_at_a_server_that_moved_too_is_open_at_its_new_place() -> None:
    head = fold((*LIVED, Noted(9, Arrived("sqlite:///here.db", SERVERS))))
    assert {id: call.server for id, call in head.pending.items()} == {"a": NEW, "c": OTHER}
    assert [one.server for one in head.subscriptions.values()] == [NEW]
    assert [one.server for one in head.waits.values()] == [NEW]
    assert head.toolsets == {OTHER: "other"}


def test_effects_go_to_where_their_servers_are() -> None:
    born = BornSignal("child", "born", 1.0, toolsets={OLD: "hash", OTHER: "other"})
    here: list[Effect] = [
        Invoke("i", "a", "build", "{}", OLD),
        Cancel("x", "b", OLD),
        Choose("o", "a", OLD, f"{OLD}/choice", 1),
        Check("k", "c", OTHER),
    ]
    assert [getattr(moved_effect(one, SERVERS), "server", "") for one in here] == [NEW, NEW, NEW, OTHER]
    elsewhere = moved_signal(born, SERVERS)
    assert isinstance(elsewhere, BornSignal)
    assert elsewhere.toolsets == {OTHER: "other"}
    assert moved_effect(Spawn("s", born), SERVERS) == Spawn("s", elsewhere)
    nudge = Post("p", Nudged("other", "n", 1.0))
    assert moved_effect(nudge, SERVERS) == nudge
    assert moved_effect(Notify("n"), SERVERS) == Notify("n")
