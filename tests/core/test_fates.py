"""A turn's calls and their fates: refused, decided, run here, or sent. Turns that are empty, cut or late."""

from typing import Any

import msgspec
import pytest

from tests.core.playing import TOOLS, Played, call
from torpor.core.answer import Asked, Inline, answer, settle_inline
from torpor.core.chunks import Stop
from torpor.core.definition import Definition, ToolSpec
from torpor.core.messages import Call, Image, Reasoning, Result, Text, Turn, Usage
from torpor.core.request import Tool, TurnItem
from torpor.core.step import Step


def asked() -> Played:
    played = Played()
    played.absorb(played.text("go"))
    return played


def told(played: Played) -> list[str]:
    return [part.text for result in played.last_results() for part in result.parts if isinstance(part, Text)]


# ------------------------------------------------------------- refusals


def test_an_unknown_tool_is_refused_with_the_known_ones() -> None:
    """E16."""
    played = asked()
    [a] = played.reply(call("raed"))
    names = ", ".join(sorted(TOOLS))
    assert told(played) == [f"Error: there is no tool 'raed'. Known: {names}."]
    assert played.results() == {a: "unknown_tool"}
    assert played.last_results()[0].is_error
    assert played.effects == []
    assert played.why == "complete"


def test_a_long_list_of_known_tools_is_cut() -> None:
    tools = {f"t{n:03}": TOOLS["read"] for n in range(60)}
    played = asked()
    played.definition = Definition("tester", tools=tools)
    played.reply(call("t"))
    assert told(played)[0].endswith("t048, t049 and 10 more.")
    played.definition = Definition("tester", tools=dict(list(tools.items())[:50]))
    played.reply(call("t"))
    assert told(played)[0].endswith("t048, t049.")


def test_a_name_that_never_ends_is_shown_cut() -> None:
    played = asked()
    played.reply(call("x" * 5_000))
    assert told(played)[0].startswith(f"Error: there is no tool '{'x' * 100}'.")


def test_the_reserved_name_is_refused_with_the_reason() -> None:
    """E15."""
    played = asked()
    [a] = played.reply(call("receive_event__injected", "{}"))
    assert told(played) == [
        "Error: receive_event__injected is not a tool: the runtime shows news under that name by itself."
    ]
    assert played.results() == {a: "reserved"}


def test_the_reserved_name_is_refused_even_if_somebody_offers_it() -> None:
    played = asked()
    name = "receive_event__injected"
    played.definition = Definition("tester", tools={name: TOOLS["read"]})
    [a] = played.reply(call(name))
    assert played.results() == {a: "reserved"}


@pytest.mark.parametrize("text", ["nonsense", "[1]", '"text"', "1", "null", "{]", '{"n": NaN}', '{"n": 1}x'])
def test_arguments_that_are_no_json_object_are_refused(text: str) -> None:
    """WIR-10."""
    played = asked()
    [a] = played.reply(call("read", text))
    assert told(played) == ["Error: the arguments of read must be a JSON object."]
    assert played.results() == {a: "invalid_arguments"}
    [made] = [part for part in played.all(Turn)[-1].parts if isinstance(part, Call)]
    assert made.invalid
    assert made.arguments == text


def test_arguments_that_do_not_fit_the_schema_are_refused_with_what_is_wrong() -> None:
    """EVT-07, E40."""
    played = asked()
    [a] = played.reply(call("read", '{"bad": 1}'))
    assert told(played) == ["Error: the arguments of read do not fit its schema: $.bad: not allowed"]
    assert played.results() == {a: "invalid_arguments"}
    [made] = [part for part in played.all(Turn)[-1].parts if isinstance(part, Call)]
    assert not made.invalid
    assert played.why == "complete"


def test_violations_are_bounded_in_number_and_length() -> None:
    played = asked()

    def check(arguments: object) -> list[str]:
        return [f"{n}" * 600 for n in range(9)]

    played.definition = Definition("tester", tools={"t": ToolSpec("t", "", {}, check)})
    played.reply(call("t"))
    listed = "; ".join(f"{n}" * 500 for n in range(5))
    assert told(played) == [f"Error: the arguments of t do not fit its schema: {listed}"]


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_arguments_at_all_mean_an_empty_object(text: str) -> None:
    """E3."""
    played = asked()
    [a] = played.reply(call("read", text))
    assert played.invoked == [a]
    [made] = [part for part in played.all(Turn)[-1].parts if isinstance(part, Call)]
    assert made.arguments == "{}"
    assert not made.invalid


def test_a_refused_sleep_is_no_wait() -> None:
    played = asked()
    [a] = played.reply(call("sleep", "{}"))
    assert played.results() == {a: "invalid_arguments"}
    [made] = [part for part in played.all(Turn)[-1].parts if isinstance(part, Call)]
    assert not made.passive


# --------------------------------------------------------- what is kept


def test_a_turn_keeps_all_that_is_known_of_its_completion() -> None:
    played = asked()
    stop = Stop("calls", Usage(1, output=2), "model-as-served", "flex", ("p1", "p2"))
    remote = call("remote", '{"n": 1}', provider_id="c0", opaque="o")
    [a] = played.reply(Reasoning("hm", "sig", "x"), "words", remote, stop=stop)
    assert played.all(Turn) == [
        Turn(
            at=played.now,
            upto=2,
            ordinal=0,
            parts=(
                Reasoning("hm", "sig", "x"),
                Text("words"),
                Call(
                    a,
                    "remote",
                    '{"n": 1}',
                    provider_id="c0",
                    server="http://tools.test",
                    repeat="unsafe",
                    opaque="o",
                ),
            ),
            model="model-as-served",
            product="flex",
            provider_ids=("p1", "p2"),
            usage=Usage(1, output=2),
            seconds=0.5,
            stop="calls",
            trace="trace",
        )
    ]


def test_a_model_that_does_not_name_itself_is_recorded_as_asked() -> None:
    played = asked()
    played.reply("hi", stop=Stop())
    assert played.all(Turn)[0].model == "scripted:model"


def test_call_ids_are_made_of_the_slices_token_and_the_place_among_the_calls() -> None:
    played = asked()
    ids = played.reply("words", call("read"), "more", call("nothing"), call("read"))
    assert ids == ["t2-0", "t2-1", "t2-2"]
    made = [part for part in played.all(Turn)[-1].parts if isinstance(part, Call)]
    assert [(part.id, part.index) for part in made] == [("t2-0", 0), ("t2-1", 1), ("t2-2", 2)]
    assert played.last is not None
    assert played.last.opened == ids


def test_completions_are_numbered() -> None:
    played = asked()
    played.reply(call("nothing"))
    played.reply("", cut=True)
    played.absorb(played.text("again"))
    played.reply()
    assert [turn.ordinal for turn in played.all(Turn)] == [0, 1, 2]
    assert played.head.ordinal == 3


# --------------------------------------------------- run within the slice


def test_a_call_that_runs_within_the_slice_is_given_back_with_its_arguments() -> None:
    played = asked()
    given: list[Inline] = []

    def run(inline: Inline) -> Result:
        given.append(inline)
        return Result(played.now, inline.call, (Text("ran \ud800"),), trace="own")

    ids = played.reply(call("quick", '{"n": 1}'), call("read"), call("quick"), inline=run)
    assert [(run.call, run.spec.name, run.arguments) for run in given] == [
        (ids[0], "quick", {"n": 1}),
        (ids[2], "quick", {}),
    ]
    assert played.invoked == [ids[1]]
    assert played.results() == {ids[0]: "ran \ufffd", ids[2]: "ran \ufffd"}


def test_a_turn_that_only_ran_calls_itself_goes_on_at_once() -> None:
    played = asked()
    played.reply(call("quick"))
    assert played.why == "complete"
    assert played.shown() == ["results: ran"]
    assert not played.all(Turn)[-1].loopback
    [made] = [part for part in played.all(Turn)[-1].parts if isinstance(part, Call)]
    assert made.repeat == "safe"


def test_what_a_call_within_the_slice_gives_besides_text_is_kept() -> None:
    played = asked()
    image = Image("aGk=", "image/png")

    def run(inline: Inline) -> Result:
        return Result(played.now, inline.call, (image,), handle="h", size=3, trace="own")

    played.reply(call("quick"), inline=run)
    [result] = played.last_results()
    assert (result.parts, result.handle, result.size) == ((image,), "h", 3)


# ------------------------------------------------------- empty, cut, late


def test_a_turn_with_nothing_in_it_is_stored_and_not_shown() -> None:
    """E20."""
    played = asked()
    played.reply()
    assert played.all(Turn)[0].parts == ()
    assert played.all(Turn)[0].end
    assert played.why == "idle"
    played.absorb(played.text("again"))
    played.reply("hello")
    assert [type(item).__name__ for item in played.requests[-1].items] == ["InputItem", "InputItem"]


@pytest.mark.parametrize("parts", [(Text(" \n"),), (Reasoning("hm", "sig"),), (Text(""), Reasoning("hm"))])
def test_a_turn_of_blanks_and_reasoning_is_stored_and_not_shown(parts: tuple[Any, ...]) -> None:
    played = asked()
    played.reply(*parts)
    assert played.all(Turn)[0].parts == parts
    played.absorb(played.text("again"))
    assert played.shown() == ["go", "again"]


def test_of_a_cut_turn_the_words_stay_and_no_call_is_sent() -> None:
    played = asked()
    read = call("read", '{"path": "x"}', provider_id="c")
    ids = played.reply("half an ans", read, call("sleep", '{"seconds": 9}'), cut=True)
    turn = played.all(Turn)[-1]
    assert (turn.cut, turn.stop, turn.end, turn.loopback, turn.usage) == (True, "cut", False, False, None)
    assert (turn.model, turn.seconds, turn.upto, turn.trace) == ("scripted:model", 0.5, 2, "trace")
    made = [part for part in turn.parts if isinstance(part, Call)]
    assert [(part.id, part.index, part.provider_id) for part in made] == [(ids[0], 0, "c"), (ids[1], 1, "")]
    assert not any(part.passive or part.held or part.repeat for part in made)
    assert played.results() == {ids[0]: "not_sent", ids[1]: "not_sent"}
    assert all(result.is_error for result in played.last_results())
    assert played.effects == []
    assert played.timers == {}
    played.absorb(played.text("instead", "interrupt"))
    not_sent = "Not sent: the turn was cut short by a person."
    assert played.shown() == [f"results: {not_sent} | {not_sent}", "instead"]
    assert played.cancelled == []


def test_a_cut_turn_still_owes_an_answer() -> None:
    """INT-07."""
    played = asked()
    played.reply("half", cut=True)
    assert played.why == "complete"
    assert played.owes
    assert played.shown() == ["[Nothing new has come. Go on.]"]
    played.reply("whole")
    assert played.why == "idle"


def test_a_cut_turn_and_the_words_that_cut_it_are_answered_once() -> None:
    played = asked()
    played.reply("half", cut=True)
    played.absorb(played.text("instead", "interrupt"))
    assert played.shown() == ["instead"]
    played.reply("ok")
    assert played.why == "idle"


def test_a_stop_after_a_cut_turn_leaves_the_thread_at_rest() -> None:
    """INT-10."""
    played = asked()
    [a] = played.reply(call("read"))
    played.reply("so", signals=[played.result(a, "precious")], cut=True)
    played.absorb(played.stop())
    assert played.why == "stopped"
    played.absorb(played.nudge())
    played.reply("well")
    texts = [view.text for item in played.requests[-1].items for view in getattr(item, "results", ())]
    assert texts == ["precious"]


def test_a_turn_that_answers_no_more_than_an_earlier_one_is_paid_and_dropped() -> None:
    played = asked()
    played.reply("first")
    step = Step("t", played.head, 9.0, played.definition)
    stop = Stop(usage=Usage(5))
    given = answer(step, (Text("second"), call("read")), stop, Asked(2, "x", "m", 1.5))
    assert given == []
    [turn] = step.messages
    assert isinstance(turn, Turn)
    assert (turn.parts, turn.upto, turn.usage, turn.ordinal, turn.end) == ((), 2, Usage(5), 1, True)
    assert step.effects == []
    assert step.head.pending == {}
    assert not step.head.exchange.open
    assert step.head.exchange.tokens == played.head.exchange.tokens + 5
    assert step.opened == []


def test_a_dropped_turn_leaves_an_open_exchange_open_and_its_order_as_it_was() -> None:
    played = asked()
    [a] = played.reply(call("read"))
    step = Step("t", played.head, 9.0, played.definition, "trace")
    answer(step, (Text("second"),), Stop(), Asked(1, "x"))
    assert step.head.exchange.open
    played.projection.add(step.messages[0])
    played.messages += step.messages
    played.head = step.head
    played.absorb(played.result(a, "one"))
    assert played.shown() == ["results: one"]


def test_a_slow_turn_stands_before_what_came_meanwhile() -> None:
    played = asked()
    [a] = played.reply("working", call("read"), meanwhile=[played.text("two"), played.text("three")])
    assert played.why == "waiting"
    played.absorb(played.result(a, "one"))
    played.reply("done")
    texts = [item.text for item in played.requests[-1].items]
    assert texts == ["go", "working", "one", "two", "three"]
    assert isinstance(played.requests[-1].items[1], TurnItem)


def test_settling_within_the_slice_is_settling() -> None:
    played = asked()
    step = Step("t", played.head, 9.0, played.definition)
    [run] = answer(step, (call("quick"),), Stop(), Asked(2, "x"))
    settle_inline(step, Result(9.0, run.call, (Text("ok"),), is_error=True, cause="timeout"))
    assert step.head.pending == {}
    assert [wait.outcome for wait in step.settled] == ["timeout"]


def test_a_tool_is_shown_to_models_by_name_description_and_schema() -> None:
    assert TOOLS["read"].shown() == Tool("read", "The tool read.", {"type": "object"})
    assert msgspec.structs.fields(Definition)
