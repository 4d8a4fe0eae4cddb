"""What children are shown of their lineage, and how words between threads look."""

from typing import Any

import pytest

from torpor.core.messages import (
    Born,
    By,
    Call,
    Detached,
    Happened,
    Image,
    Link,
    Message,
    Noted,
    Parked,
    Reported,
    Result,
    Said,
    Text,
    Turn,
)
from torpor.core.projection import Projection
from torpor.core.request import AnyItem, InjectedItem, InputItem, NoticeItem, ResultsItem, TurnItem, item_text

ASKED = Said(10.0, (Text("go"),))
BELONGS = "This call belongs to the parent thread; its result goes there."
SPAWN = Call("s", "spawn_thread", '{"instructions": "Look."}')


def turn(*parts: Any, upto: int, ordinal: int = 0) -> Turn:
    return Turn(11.0, upto, ordinal, parts)


PARENT: list[Message] = [
    Noted(1.0, Born("a")),
    ASKED,
    turn(Call("r", "read"), SPAWN, upto=2),
    Result(12.0, "r", (Text("secret"),)),
]


def shown(thread: str, *messages: Message, to: Projection | None = None) -> Projection:
    """A projection with a thread's messages, as of its next request."""
    projection = to or Projection(thread)
    if to:
        projection.enter(thread)
    for message in messages:
        projection.add(message)
    return projection


def birth(purpose: str = "child", call: str = "s", **fields: Any) -> list[Message]:
    """The first two messages of a child."""
    parts = fields.pop("parts", (Text("Look."),))
    word = Reported(20.0, "root", "born", call, "spawn_thread", parts=parts, purpose=purpose, **fields)
    born = Born("a", purpose=purpose, parent="root", ancestors=("root",), call=call)
    return [Noted(20.0, born), word]


def items(projection: Projection) -> list[AnyItem]:
    projection.show()
    return projection.items


def results(item: AnyItem) -> list[str]:
    assert isinstance(item, ResultsItem)
    return [view.text for view in item.results]


# -------------------------------------------------------------- seeds


def test_the_seed_is_the_result_of_the_call_that_made_the_child() -> None:
    child = shown("kid", *birth(), to=shown("root", *PARENT[:3]))
    first, second, third = items(child)
    assert (first, type(second)) == (InputItem(10.0, (Text("go"),)), TurnItem)
    read, seed = results(third)
    assert read == BELONGS
    assert seed == (
        "[You are now inside the new thread kid, which this call has made. The threads from the root to here:"
        " root, kid. All before this is the history of the thread root: its plans and its open calls stay "
        "there, and none is yours. The instructions of this thread, word for word:]\n"
        "Look.\n"
        "[Begin by saying in your own words what this thread is to do, then do that and nothing else. Tell "
        "the thread root what came of it with report_to_parent; end this thread with close_thread when "
        "nothing is left to do in it.]"
    )
    assert isinstance(third, ResultsItem)
    assert [view.is_error for view in third.results] == [False, False]


def test_what_the_turn_with_the_call_had_not_seen_is_the_parents_alone() -> None:
    late = Said(10.5, (Text("for the parent"),))
    spawned = turn(SPAWN, upto=2)
    child = shown("kid", *birth(), to=shown("root", *PARENT[:2], late, spawned))
    assert "for the parent" not in " ".join(map(item_text, items(child)))


def test_a_result_of_the_lineage_that_comes_to_the_child_is_of_no_call_it_knows() -> None:
    child = shown("kid", *birth(), to=shown("root", *PARENT[:3]))
    items(child)
    child.add(turn(Text("Looking."), upto=2))
    child.add(Result(30.0, "r", (Text("odd"),)))
    last = items(child)[-1]
    assert isinstance(last, InjectedItem)
    assert (last.name, last.text) == ("unknown", "odd")


def test_a_child_without_its_seed_is_still_answered() -> None:
    born, _ = birth()
    child = shown("kid", born, ASKED, to=shown("root", *PARENT[:3]))
    *_, calls, last = items(child)
    assert results(calls) == [BELONGS, BELONGS]
    assert last == InputItem(10.0, (Text("go"),))


def test_a_seed_that_a_model_chokes_on_is_set_aside_and_still_answers_the_call() -> None:
    aside = Noted(21.0, Parked("too long", aside=True))
    child = shown("kid", *birth(), aside, to=shown("root", *PARENT[:3]))
    _, seed = results(items(child)[-1])
    assert "inside the new thread kid" in seed
    assert "set aside after a failure" in seed
    assert "Look." not in seed


def test_other_words_between_threads_are_set_aside_as_all_else() -> None:
    word = Reported(5.0, "kid", "report", "s", "spawn_thread", parts=(Text("poison"),))
    projection = shown("root", ASKED, word, Noted(6.0, Parked("", aside=True)))
    assert "poison" not in " ".join(map(item_text, items(projection)))


def test_a_fresh_child_is_told_where_it_is() -> None:
    [notice] = items(shown("kid", *birth()))
    assert isinstance(notice, NoticeItem)
    assert notice.text.startswith(
        "[You are inside the new thread kid, made by the thread root, whose history is not shown here. "
        "The threads from the root to here: root, kid. The instructions of this thread, word for word:]\n"
        "Look.\n"
    )
    assert "report_to_parent" in notice.text


def test_an_event_child_is_told_what_it_is_for_and_given_the_events() -> None:
    event = Happened(19.0, "w", "watch", "{}", (Text("fell"),), associative=True)
    seed = birth("event", call="w", parts=())
    child = shown("kid", *seed, event, to=shown("root", *PARENT[:3]))
    _, _, calls, notice, injected = items(child)
    assert results(calls) == [BELONGS, BELONGS]
    assert isinstance(notice, NoticeItem)
    assert "temporary thread kid, made for events of a subscription (spawn_thread w)" in notice.text
    assert "not shown to people" in notice.text
    assert isinstance(injected, InjectedItem)
    assert (injected.id, injected.text) == ("news3-kid", "fell")


def test_the_call_of_a_subscription_is_not_answered_by_the_seed_of_its_event_child() -> None:
    child = shown("kid", *birth("event", parts=()), to=shown("root", *PARENT[:3]))
    *_, calls, notice = items(child)
    assert results(calls) == [BELONGS, BELONGS]
    assert isinstance(notice, NoticeItem)


def test_a_compaction_child_sees_what_its_parent_saw_and_its_task() -> None:
    """As of a position that a turn has answered: the parent's own request, and then the task."""
    history = [
        *PARENT[:3],
        Noted(12.0, Detached(("s",), "text")),
        PARENT[3],
        Said(13.0, (Text("and?"),)),
    ]
    asked = items(shown("root", *history))
    seed = birth("compaction", call="", parts=(Text("Sum it up."),))
    child = items(shown("kid", *seed, to=shown("root", *history)))
    assert child[: len(asked)] == asked
    [notice] = child[len(asked) :]
    assert isinstance(notice, NoticeItem)
    assert notice.text.startswith("[You are now inside the temporary thread kid of the runtime's own.")
    assert notice.text.endswith("\nSum it up.")


def test_what_a_compaction_covers_is_shown_to_it_though_no_turn_came_after() -> None:
    late = Said(10.5, (Text("more"),))
    history: list[Message] = [ASKED, late, turn(Text("ok"), upto=1)]
    child = items(shown("kid", *birth("compaction", call=""), to=shown("root", *history)))
    assert [item_text(item) for item in child[:3]] == ["go", "ok", "more"]


def test_a_fork_goes_on_with_the_history_and_nothing_of_it_is_open() -> None:
    born = Noted(20.0, Born("a", lineage=(Link("root", 3),)))
    fork = shown("fork", born, Said(21.0, (Text("else"),)), to=shown("root", *PARENT[:3]))
    *_, calls, told, last = items(fork)
    assert results(calls) == [BELONGS, BELONGS]
    assert item_text(told).startswith("[From here on this is another thread, fork, which goes on with")
    assert last == InputItem(21.0, (Text("else"),))


def test_injected_items_of_a_lineage_and_of_the_thread_itself_have_different_ids() -> None:
    event = Happened(5.0, "w", "watch", "{}", (Text("e"),))
    root = shown("root", event, event, turn(SPAWN, upto=2))
    child = shown("kid", *birth(), event, turn(SPAWN, upto=3), to=root)
    last = shown("grandkid", *birth(), event, event, to=child)
    ids = [item.id for item in items(last) if isinstance(item, InjectedItem)]
    assert ids == ["news1", "news2", "news3-kid", "news3-grandkid", "news4-grandkid"]


def test_a_copy_of_a_child_that_is_about_to_begin_begins() -> None:
    root = shown("root", *PARENT[:3])
    root.enter("kid")
    first, second = root.fork(), root
    for message in birth():
        first.add(message)
        second.add(message)
    assert items(first) == items(second)
    assert first.position == second.position == 2
    assert first.thread == "kid"


# -------------------------------------------------------------- words


def word(what: str, text: str = "w", **fields: Any) -> Reported:
    parts = (Text(text),) if text else ()
    return Reported(15.0, "kid", what, "s", "spawn_thread", '{"a": 1}', parts, **fields)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("report", "Report of the child thread kid."),
        (
            "ended",
            "The child thread kid has ended its exchange without a report; these are its last words.",
        ),
        ("parked", "The child thread kid was set aside after a failure and does not go on by itself."),
        ("stopped", "The child thread kid was stopped."),
        ("closed", "The child thread kid is closed."),
        ("adopted", "The thread between this one and kid is closed: these two are parent and child now."),
        ("told", "Message of the parent thread kid."),
        ("undelivered", "What this thread said to the thread kid did not arrive."),
        ("something new", "Word of the child thread kid."),
    ],
)
def test_words_of_other_threads_are_news_with_who_says_what(what: str, says: str) -> None:
    [_, item] = items(shown("root", ASKED, word(what)))
    assert item == InjectedItem(
        id="news2",
        name="spawn_thread",
        call="s",
        arguments='{"a": 1}',
        parts=(Text("w"),),
        at=15.0,
        source=what,
        notes=(says,),
    )


def test_a_temporary_child_is_named_as_one() -> None:
    [_, item] = items(shown("root", ASKED, word("report", purpose="event")))
    assert isinstance(item, InjectedItem)
    assert item.notes == ("Report of the temporary thread kid, made for events.",)


def test_words_that_are_none_say_so() -> None:
    [_, item] = items(shown("root", ASKED, word("stopped", "", owes=False)))
    assert item_text(item) == "(no text)"


@pytest.mark.parametrize("purpose", ["event", "compaction"])
def test_the_end_of_a_temporary_child_that_had_nothing_to_say_is_not_shown(purpose: str) -> None:
    end = word("closed", "", purpose=purpose, owes=False)
    assert len(items(shown("root", ASKED, end))) == 1


@pytest.mark.parametrize(
    "end",
    [
        word("closed", "", owes=False),
        word("closed", "why", purpose="event", owes=False),
        word("closed", "", purpose="event"),
        word("stopped", "", purpose="event", owes=False),
    ],
)
def test_every_other_end_is_shown(end: Reported) -> None:
    assert len(items(shown("root", ASKED, end))) == 2


def test_a_child_that_rests_after_a_report_is_not_shown() -> None:
    assert len(items(shown("root", ASKED, word("rested", "")))) == 1


def test_events_for_children_are_not_shown() -> None:
    event = Happened(5.0, "w", "watch", "{}", (Text("e"),), threaded=True)
    assert len(items(shown("root", ASKED, event))) == 1


# ----------------------------------------------------------- sources


@pytest.mark.parametrize(
    ("by", "notes"),
    [
        (By("tool", "s", "callback"), ()),
        (By("tool", "s", "process"), ()),
        (By("runtime"), ()),
        (By("tool", "s", "signature"), ("Its source is verified by signature.",)),
        (By("tool", "s"), ("Its source is not verified.",)),
    ],
)
def test_news_says_how_its_source_was_verified_where_that_is_worth_a_word(
    by: By, notes: tuple[str, ...]
) -> None:
    """Events that came by a call's own callback look as they always did."""
    event = Happened(5.0, "w", "watch", "{}", (Text("e"), Image("aGk=", "image/png")), by=by)
    late = Result(6.0, "c", (Text("r"),), by=by)
    _, first, second = items(shown("root", ASKED, event, late))
    assert isinstance(first, InjectedItem)
    assert isinstance(second, InjectedItem)
    assert first.notes == notes
    assert second.notes == ("This is the result of the earlier call.", *notes)
