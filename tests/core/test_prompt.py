"""History into items: always valid, never changing what was shown."""

from typing import Any

import msgspec
import pytest

from tests.core.playing import Played, call, definition, tool
from torpor.core.definition import Definition
from torpor.core.messages import (
    Born,
    Call,
    Detached,
    File,
    Happened,
    Image,
    Message,
    Noted,
    Reasoning,
    Result,
    Said,
    Text,
    Turn,
)
from torpor.core.prompt import Fixed, Projection, request
from torpor.core.request import (
    AnyItem,
    InjectedItem,
    InputItem,
    NoticeItem,
    ResultsItem,
    ResultView,
    TurnItem,
    item_text,
)
from torpor.core.thread import fold

ASKED = Said(10.0, (Text("go"),))


def items(*messages: Message) -> list[AnyItem]:
    """What a model would be shown of a history."""
    projection = Projection()
    for message in messages:
        projection.add(message)
    projection.show()
    return projection.items


def turn(*parts: Any, upto: int = 1, ordinal: int = 0) -> Turn:
    return Turn(11.0, upto, ordinal, parts)


# -------------------------------------------------------------- one item


def test_words_are_shown_with_the_instant_they_came() -> None:
    assert items(ASKED) == [InputItem(10.0, (Text("go"),))]


def test_facts_of_the_threads_life_are_not_shown() -> None:
    assert items(Noted(1.0, Born("a")), ASKED) == [InputItem(10.0, (Text("go"),))]


def test_blank_text_is_left_out_and_nul_replaced() -> None:
    """WIR-07, WIR-11."""
    image = Image("aGk=", "image/png")
    parts = (Text(" \n"), image, Text("a\0b"), File("n\0", "text/plain", "data", "c\0d"))
    [item] = items(Said(1.0, parts))
    clean = (image, Text("a\ufffdb"), File("n\ufffd", "text/plain", "data", "c\ufffdd"))
    assert item == InputItem(1.0, clean)


def test_terminal_escapes_and_the_text_of_an_escape_are_shown_as_they_are() -> None:
    [item] = items(Said(1.0, (Text("\x1b[31m \\u0000"),)))
    assert item_text(item) == "\x1b[31m \\u0000"


def test_a_turn_is_shown_in_its_own_order_without_what_a_provider_refuses() -> None:
    parts = (
        Reasoning("a", "sig", "x"),
        Text(" "),
        Text("b\0"),
        Call("c1", "read", "{}", "p", 0, opaque="o", server="s", repeat="safe"),
        Reasoning("trailing"),
        Text(""),
    )
    shown = items(ASKED, turn(*parts), Result(12.0, "c1", (Text("r"),)))[1]
    assert shown == TurnItem(
        (Reasoning("a", "sig", "x"), Text("b\ufffd"), Call("c1", "read", "{}", "p", 0, opaque="o"))
    )


def test_signed_reasoning_is_sent_back_as_it_came() -> None:
    signed = Reasoning("a\0", "sig", "x")
    shown = items(ASKED, turn(signed, Text("b")))[1]
    assert shown == TurnItem((signed, Text("b")))


def test_the_place_of_a_call_is_kept() -> None:
    shown = items(ASKED, turn(Call("c1", "read"), Call("c2", "read", index=1)))[1]
    assert isinstance(shown, TurnItem)
    assert [call.index for call in shown.calls] == [0, 1]


def test_arguments_that_are_too_long_to_send_are_stored_whole_and_shown_as_a_beginning() -> None:
    """WIR-14."""
    played = Played()
    played.absorb(played.text())
    long = '{"text": "' + "x" * 1_100_000 + '"}'
    [a] = played.reply(call("write", long))
    [made] = [part for part in played.all(Turn)[0].parts if isinstance(part, Call)]
    assert made.arguments == long
    played.absorb(played.result(a))
    played.reply("ok")
    shown = played.requests[-1].items[1]
    assert isinstance(shown, TurnItem)
    decoded = msgspec.json.decode(shown.calls[0].arguments)
    assert decoded == {"beginning": long[:100_000], "characters": 1_100_012}


def test_arguments_up_to_the_bound_are_shown_letter_by_letter() -> None:
    exact = '{"t": "' + "x" * (100_000 - 9) + '"}'
    assert len(exact) == 100_000
    shown = items(ASKED, turn(Call("c", "write", exact)))[1]
    assert isinstance(shown, TurnItem)
    assert shown.calls[0].arguments == exact
    longer = exact.replace("x", "xx", 1)
    shown = items(ASKED, turn(Call("c", "write", longer)))[1]
    assert isinstance(shown, TurnItem)
    assert shown.calls[0].arguments != longer


def test_arguments_that_were_no_object_are_shown_inside_one() -> None:
    shown = items(ASKED, turn(Call("c", "write", 'no "json" \0', invalid=True)))[1]
    assert isinstance(shown, TurnItem)
    decoded = msgspec.json.decode(shown.calls[0].arguments)
    assert decoded == {"beginning": 'no "json" \ufffd', "characters": 11}


def test_an_empty_result_says_so() -> None:
    """WIR-07."""
    history: list[Message] = [ASKED, turn(Call("c", "read")), Result(12.0, "c", (Text(" "),))]
    assert items(*history)[2] == ResultsItem((ResultView("c", "read", (Text("(empty result)"),)),))
    history[2] = Result(12.0, "c")
    assert items(*history)[2] == ResultsItem((ResultView("c", "read", (Text("(empty result)"),)),))


def test_a_result_of_images_alone_is_a_result() -> None:
    image = Image("aGk=", "image/png")
    shown = items(ASKED, turn(Call("c", "read")), Result(12.0, "c", (image,), is_error=True))[2]
    assert shown == ResultsItem((ResultView("c", "read", (image,), is_error=True),))


def test_a_result_of_which_more_is_kept_says_how_to_get_it() -> None:
    shown = items(ASKED, turn(Call("c", "read")), Result(12.0, "c", (Text("be"),), handle="h1", size=9_000))[
        2
    ]
    told = (
        "[This is only the beginning: the whole text has 9000 characters. "
        'Call read_result with handle "h1" for the rest.]'
    )
    assert shown == ResultsItem((ResultView("c", "read", (Text("be"), Text(told))),))


def test_a_late_result_is_news_of_its_call() -> None:
    history: list[Message] = [
        ASKED,
        turn(Call("c", "write", '{"a": 1}')),
        Noted(12.0, Detached(("c",), "text")),
        Said(12.0, (Text("and?"),)),
        turn(Text("wait"), upto=4, ordinal=1),
        Result(20.0, "c", (Text("no"),), is_error=True, handle="h", size=5),
    ]
    told = (
        "[This is only the beginning: the whole text has 5 characters. "
        'Call read_result with handle "h" for the rest.]'
    )
    assert items(*history)[-1] == InjectedItem(
        id="news6",
        name="write",
        call="c",
        arguments='{"a": 1}',
        parts=(Text("no"), Text(told)),
        at=20.0,
        source="result",
        notes=("This is the result of the earlier call.", "The call failed."),
    )


def test_a_late_result_that_is_no_error_does_not_say_so() -> None:
    [_, item] = items(ASKED, Result(20.0, "c", (Text("x"),)))
    assert item == InjectedItem(
        id="news2",
        name="unknown",
        call="c",
        arguments="{}",
        parts=(Text("x"),),
        at=20.0,
        source="result",
        notes=("This is the result of the earlier call.",),
    )


def test_long_arguments_are_shown_with_late_results_as_a_marked_beginning() -> None:
    long = '{"a": "' + "x" * 3_000 + '"}'
    history: list[Message] = [
        ASKED,
        turn(Call("c", "write", long)),
        Noted(12.0, Detached(("c",), "text")),
        Said(12.0, (Text("and?"),)),
        turn(Text("wait"), upto=4, ordinal=1),
        Result(20.0, "c"),
    ]
    item = items(*history)[-1]
    assert isinstance(item, InjectedItem)
    assert msgspec.json.decode(item.arguments) == {"beginning": long[:2_000], "characters": 3_009}


# ---------------------------------------------------------------- order


def test_a_call_whose_result_was_never_recorded_is_answered_as_missing() -> None:
    """INT-04."""
    shown = items(ASKED, turn(Call("a", "read"), Call("b", "read", index=1)), Said(13.0, (Text("next"),)))
    missing = (Text("No result was recorded for this call."),)
    views = (ResultView("a", "read", missing, is_error=True), ResultView("b", "read", missing, is_error=True))
    assert shown[2:] == [ResultsItem(views), InputItem(13.0, (Text("next"),))]


def test_only_calls_that_were_detached_are_shown_as_still_running() -> None:
    shown = items(
        ASKED,
        turn(Call("a", "read"), Call("b", "read", index=1)),
        Noted(12.0, Detached(("b",), "text")),
        Said(13.0, (Text("next"),)),
    )[2]
    assert isinstance(shown, ResultsItem)
    assert [view.text for view in shown.results] == [
        "No result was recorded for this call.",
        "Still running. Its result will come as an event.",
    ]
    assert [view.is_error for view in shown.results] == [True, False]


def test_what_was_detached_once_is_not_still_running_for_ever() -> None:
    shown = items(
        ASKED,
        turn(Call("a", "read")),
        Noted(12.0, Detached(("a",), "text")),
        Said(13.0, (Text("next"),)),
        turn(Call("a", "read"), upto=4, ordinal=1),
        Said(14.0, (Text("and?"),)),
    )[-2]
    assert isinstance(shown, ResultsItem)
    assert shown.results[0].text == "No result was recorded for this call."


def test_detaching_twice_detaches_both() -> None:
    shown = items(
        ASKED,
        turn(Call("a", "read"), Call("b", "read", index=1)),
        Noted(12.0, Detached(("a",), "each")),
        Noted(12.0, Detached(("b",), "text")),
    )[2]
    assert isinstance(shown, ResultsItem)
    assert [view.is_error for view in shown.results] == [False, False]


def test_of_two_results_the_first_stands_in_the_batch_and_the_second_is_news() -> None:
    history: list[Message] = [
        ASKED,
        turn(Call("a", "read", '{"n": 1}')),
        Result(12.0, "a", (Text("gave up"),), cause="unknown"),
        Result(13.0, "a", (Text("here"),)),
    ]
    shown = items(*history)
    assert isinstance(shown[2], ResultsItem)
    assert shown[2].results[0].text == "gave up"
    assert isinstance(shown[3], InjectedItem)
    assert (shown[3].name, shown[3].arguments, shown[3].text) == ("read", '{"n": 1}', "here")


def test_news_stands_after_the_results_though_it_came_before_them() -> None:
    event = Happened(11.5, "s", "watch", "{}", (Text("ping"),))
    shown = items(ASKED, turn(Call("a", "read")), event, Result(12.0, "a", (Text("r"),)))
    assert [type(item) for item in shown] == [InputItem, TurnItem, ResultsItem, InjectedItem]


def test_what_a_turn_had_not_seen_stands_after_it() -> None:
    late = Said(10.5, (Text("more"),))
    shown = items(ASKED, late, turn(Text("ok"), upto=1))
    assert [item_text(item) for item in shown] == ["go", "ok", "more"]


def test_what_a_turn_had_seen_stands_before_it() -> None:
    late = Said(10.5, (Text("more"),))
    shown = items(ASKED, late, turn(Text("ok"), upto=2), Said(12.0, (Text("x"),)))
    assert [item_text(item) for item in shown] == ["go", "more", "ok", "x"]


def test_a_turn_older_than_the_last_is_not_shown() -> None:
    more = Said(12.0, (Text("more"),))
    fresh = turn(Text("fresh"), upto=2)
    shown = items(ASKED, more, fresh, turn(Text("stale"), Call("c", "x"), upto=2, ordinal=1))
    assert [item_text(item) for item in shown][:3] == ["go", "more", "fresh"]
    assert isinstance(shown[3], NoticeItem)
    assert len(shown) == 4


def test_a_request_never_ends_with_the_models_own_words() -> None:
    assert items(ASKED, turn(Text("ok")))[-1] == NoticeItem("[Nothing new has come. Go on.]")
    assert items(Noted(1.0, Born("a"))) == [NoticeItem("[Nothing new has come. Go on.]")]


def test_showing_twice_is_showing_once() -> None:
    projection = Projection()
    projection.add(ASKED)
    projection.show()
    projection.show()
    assert len(projection.items) == 1


def test_a_fork_goes_its_own_way() -> None:
    projection = Projection()
    for message in (ASKED, turn(Call("a", "read"))):
        projection.add(message)
    fork = projection.fork()
    assert (fork.position, fork.digest, fork.items) == (2, projection.digest, projection.items)
    fork.add(Noted(12.0, Detached(("a",), "text")))
    fork.add(Said(13.0, (Text("fork"),)))
    fork.show()
    projection.add(Result(12.0, "a", (Text("r"),)))
    projection.show()
    assert [item_text(item) for item in projection.items][2:] == ["r"]
    assert [item_text(item) for item in fork.items][3:] == ["fork"]
    again = fork.fork()
    again.add(Result(14.0, "a", (Text("late"),)))
    again.show()
    assert again.items[-1] != fork.items[-1]
    assert getattr(again.items[-1], "name", "") == "read"


def test_a_fork_remembers_what_was_answered() -> None:
    projection = Projection()
    for message in (ASKED, turn(Text("ok"))):
        projection.add(message)
    fork = projection.fork()
    fork.add(turn(Text("stale"), ordinal=1))
    assert len(fork.items) == 2


# -------------------------------------------------------------- requests


def asked(agent: Definition, *messages: Message) -> Any:
    projection = Projection()
    for message in messages:
        projection.add(message)
    projection.show()
    return request(agent, projection, Fixed(agent))


def test_a_request_holds_the_agent_its_tools_and_all_items() -> None:
    agent = definition(model="m:x", instructions="Do.", settings={"temperature": 0})
    found = asked(agent, ASKED)
    assert (found.agent, found.model, found.instructions) == ("tester", "m:x", "Do.")
    assert found.settings == {"temperature": 0}
    assert found.items == (InputItem(10.0, (Text("go"),)),)
    assert [shown.name for shown in found.tools] == list(agent.tools)
    assert len(found.hash) == 32
    assert found.epoch == Fixed(agent).digest.hex()


def test_the_same_request_has_the_same_hash_and_any_other_has_another() -> None:
    agent = definition(model="m:x", instructions="Do.")
    same = asked(agent, ASKED)
    assert asked(definition(model="m:x", instructions="Do."), ASKED) == same
    others = [
        asked(agent, Said(10.0, (Text("went"),))),
        asked(agent, Said(11.0, (Text("go"),))),
        asked(agent, ASKED, ASKED),
        asked(definition(model="m:y", instructions="Do."), ASKED),
        asked(definition(model="m:x", instructions="Do!"), ASKED),
        asked(definition(model="m:x", instructions="Do.", settings={"a": 1}), ASKED),
        asked(Definition("other", "m:x", "Do.", tools=agent.tools), ASKED),
        asked(Definition("tester", "m:x", "Do.", tools={"t": tool("t")}), ASKED),
    ]
    assert len({same.hash, *(other.hash for other in others)}) == 9
    assert {other.epoch == same.epoch for other in others[:3]} == {True}
    assert len({same.epoch, *(other.epoch for other in others[3:])}) == 6


def test_the_hash_of_a_request_is_what_it_always_was() -> None:
    agent = Definition("a", "m:x", "Do.", {"b": 1}, tools={"t": tool("t")})
    found = asked(agent, Noted(1.0, Born("a")), ASKED, turn(Text("ok"), upto=2), Said(12.0, (Text("more"),)))
    assert found.epoch == "105b453a4a78b573dc4b37fdb39cd56a"
    assert found.hash == "0d82957d2c3b36d3875d2727000e18b3"


def test_the_order_of_items_counts_in_the_hash() -> None:
    a, b = Said(1.0, (Text("a"),)), Said(1.0, (Text("b"),))
    agent = definition()
    assert asked(agent, a, b).hash != asked(agent, b, a).hash


@pytest.mark.parametrize("split", range(8))
def test_a_history_shown_step_by_step_is_the_history_shown_at_once(split: int) -> None:
    history: list[Message] = [
        ASKED,
        turn(Call("a", "read"), Call("b", "write", index=1)),
        Result(12.0, "b", (Text("2"),)),
        Result(12.0, "a", (Text("1"),)),
        turn(Text("ok"), upto=4, ordinal=1),
        Said(13.0, (Text("more"),)),
        turn(Text("yes"), upto=6, ordinal=2),
        Said(14.0, (Text("last"),)),
    ]
    projection = Projection()
    for message in history[:split]:
        projection.add(message)
    projection = projection.fork()
    for message in history[split:]:
        projection.add(message)
    projection.show()
    assert projection.items == items(*history)
    assert fold(history).length == projection.position == 8


def test_calls_whose_results_were_shown_are_forgotten_and_others_are_not() -> None:
    history: list[Message] = [
        ASKED,
        turn(Call("a", "read"), Call("b", "write", index=1), Call("c", "write", index=2)),
        Result(12.0, "a", (Text("1"),), cause="decided"),
        Result(12.0, "b", (Text("2"),), cause="timeout"),
        Noted(12.0, Detached(("c",), "text")),
        Said(13.0, (Text("and?"),)),
        turn(Text("ok"), upto=6, ordinal=1),
    ]
    projection = Projection()
    for message in history:
        projection.add(message)
    assert projection._names.keys() == {"b", "c"}
    projection.add(Result(14.0, "b", (Text("late"),)))
    projection.add(Result(14.0, "c", (Text("gave up"),), cause="unknown"))
    projection.show()
    assert projection._names.keys() == {"c"}
