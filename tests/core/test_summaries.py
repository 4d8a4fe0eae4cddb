"""What stands where history was summed up or folded, where it may be cut, and what that would save."""

from typing import Any

import pytest

from tests.core.threading_lives import begun, seen
from torpor.core.items import IMAGE, weight
from torpor.core.messages import (
    Born,
    Call,
    Detached,
    File,
    Folded,
    Happened,
    Image,
    Message,
    Noted,
    Reported,
    Result,
    Said,
    Summary,
    Text,
    Turn,
)
from torpor.core.projection import Projection
from torpor.core.request import (
    AnyItem,
    InjectedItem,
    InputItem,
    ResultsItem,
    SummaryItem,
    TurnItem,
    item_text,
)

LONG = "abcdefghij" * 500


def said(text: str, at: float = 10.0) -> Said:
    return Said(at, (Text(text),))


def turn(*parts: Any, upto: int, ordinal: int = 0) -> Turn:
    return Turn(11.0, upto, ordinal, parts)


def shown(*messages: Message, thread: str = "t") -> Projection:
    projection = Projection(thread)
    for message in messages:
        projection.add(message)
    return projection


def items(*messages: Message) -> list[AnyItem]:
    projection = shown(*messages)
    projection.show()
    return projection.items


def words(found: list[AnyItem]) -> list[str]:
    return [item_text(item) for item in found]


# -------------------------------------------------------------- summaries

TALK: list[Message] = [
    said("t1"),
    turn(Text("t2"), upto=1),
    said("t3"),
    turn(Text("t4"), upto=3, ordinal=1),
]


def test_cmp_10_what_is_not_summed_up_stays_as_it_was() -> None:
    kept = items(*TALK)[1:4]
    found = items(*TALK, Summary(20.0, 1, "earlier"))
    assert found[0] == SummaryItem(20.0, "earlier")
    assert found[1:4] == kept
    found = items(*TALK, Summary(20.0, 3, "earlier", "Title: T"))
    assert words(found)[1:] == ["t4", "[Nothing new has come. Go on.]"]


def test_a_summary_says_what_it_is_and_what_the_runtime_knows() -> None:
    text = SummaryItem(20.0, "It went well.", "Title: T").text
    assert text == (
        "[1970-01-01 00:00:20 UTC] [Summary, made by the runtime: it stands for all earlier history.]\n"
        "It went well.\n"
        "[What the runtime knows besides, as of then:]\n"
        "Title: T\n"
        "[End of the summary. What follows came after what it covers.]"
    )
    assert "knows besides" not in SummaryItem(20.0, "It went well.", " ").text


BATCH: list[Message] = [
    said("go"),
    turn(Call("a", "read"), Call("b", "write", '{"n": 1}', index=1), upto=1),
    Result(12.0, "a", (Text("ra"),)),
    Noted(12.0, Detached(("b",), "each")),
    turn(Text("one"), upto=4, ordinal=1),
    Result(13.0, "b", (Text("rb"),)),
    turn(Text("two"), upto=6, ordinal=2),
]


def test_cmp_02_a_cut_inside_a_parallel_batch_leaves_no_result_without_its_call() -> None:
    [_, second, _] = shown(*BATCH).cuts
    assert (second.position, second.calls) == (4, (Call("b", "write", '{"n": 1}', index=1),))
    summary = Summary(20.0, 4, "s", calls=second.calls)
    found = items(*BATCH, summary)
    assert [type(item) for item in found[:3]] == [SummaryItem, TurnItem, InjectedItem]
    late = found[2]
    assert isinstance(late, InjectedItem)
    assert (late.name, late.arguments, late.text) == ("write", '{"n": 1}', "rb")
    assert seen(begun("t", [*BATCH, summary], summary)) == seen(shown(*BATCH, summary))


def test_a_result_that_comes_after_the_summary_is_shown_as_news_of_its_call() -> None:
    history = [*BATCH[:5], Summary(20.0, 4, "s", calls=(Call("b", "write", '{"n": 1}', index=1),))]
    for projection in (shown(*history), begun("t", history, history[-1])):  # type: ignore[arg-type]
        projection.add(BATCH[5])
        projection.show()
        last = projection.items[-1]
        assert isinstance(last, InjectedItem)
        assert (last.id, last.name, last.arguments, last.text) == ("news7", "write", '{"n": 1}', "rb")


def test_cmp_01_two_summaries_in_a_row_leave_no_result_without_its_call() -> None:
    first, second, third = shown(*BATCH).cuts
    history = [*BATCH, Summary(20.0, first.position, "one", calls=first.calls)]
    history.append(Summary(21.0, second.position, "two", calls=second.calls))
    found = items(*history)
    assert words(found)[1:4] == ["one", "rb", "two"]
    assert found[0] == SummaryItem(21.0, "two")
    history.append(Summary(22.0, third.position, "three", calls=third.calls))
    assert words(items(*history))[1:] == ["two", "[Nothing new has come. Go on.]"]


def test_of_two_summaries_the_one_that_covers_more_counts() -> None:
    wide, narrow = Summary(20.0, 6, "wide"), Summary(21.0, 4, "narrow")
    assert items(*BATCH, wide, narrow)[0] == SummaryItem(20.0, "wide")
    assert items(*BATCH, narrow, wide)[0] == SummaryItem(20.0, "wide")
    assert items(*BATCH, wide, Summary(21.0, 6, "again"))[0] == SummaryItem(20.0, "wide")


def test_cmp_04_words_that_came_beside_a_result_are_kept_without_it() -> None:
    history: list[Message] = [
        said("go"),
        turn(Call("a", "read"), upto=1),
        Result(12.0, "a", (Text("ra"),)),
        said("hi"),
        turn(Text("ok"), upto=3, ordinal=1),
    ]
    summary = Summary(20.0, 3, "s")
    found = items(*history, summary)
    assert [type(item) for item in found] == [SummaryItem, TurnItem, InputItem]
    assert words(found)[1:] == ["ok", "hi"]


def test_cmp_05_a_childs_summary_counts_its_own_positions() -> None:
    parent = shown(*TALK, thread="parent")
    before = list(parent.items)
    spawn = Call("s", "spawn_thread")
    parent.add(turn(spawn, upto=4, ordinal=2))
    sibling, child = parent.fork(), parent.fork()
    own: list[Message] = [
        Noted(20.0, Born("a", purpose="child", parent="parent", ancestors=("parent",), call="s")),
        Reported(20.0, "parent", "born", "s", "spawn_thread", parts=(Text("Do."),)),
        turn(Text("mine"), upto=2),
        said("more"),
        turn(Text("done"), upto=4, ordinal=1),
    ]
    child.enter("child")
    sibling.enter("sibling")
    for message in own:
        child.add(message)
        sibling.add(message)
    untouched = list(sibling.items)
    assert [cut.position for cut in child.cuts] == [2, 4]
    for summary in (Summary(30.0, 2, "first"), Summary(31.0, 4, "second")):
        child.add(summary)
        history = [*own, Summary(30.0, 2, "first"), summary][: child.position]
        loaded = begun("child", history, summary, marked=True)
        assert loaded.items == child.items
    assert words(child.items)[1:] == ["done"]
    assert sibling.items == untouched
    assert parent.items[: len(before)] == before


def test_a_summary_stands_for_the_lineage_too() -> None:
    child = shown(said("of the parent"), turn(Text("p"), upto=1), thread="parent")
    child.enter("child")
    for message in (Noted(2.0, Born("a")), said("own"), turn(Text("o"), upto=2), Summary(3.0, 2, "all")):
        child.add(message)
    assert words(child.items)[1:] == ["o"]


def test_a_position_that_no_turn_has_answered_keeps_more_rather_than_less() -> None:
    assert words(items(*TALK, Summary(20.0, 2, "s")))[1:4] == ["t2", "t3", "t4"]
    assert words(items(said("a"), Summary(20.0, 1, "s")))[1:] == ["a"]


def test_what_came_while_the_summary_was_written_is_kept() -> None:
    history: list[Message] = [*TALK, said("t5"), Summary(20.0, 3, "s")]
    assert words(items(*history))[1:] == ["t4", "t5"]
    assert seen(begun("t", history, history[-1])) == seen(shown(*history))  # type: ignore[arg-type]


def test_a_turn_with_nothing_to_show_may_be_the_one_that_answered_the_cut() -> None:
    history: list[Message] = [said("a"), turn(upto=1), said("b"), turn(Text("c"), upto=3, ordinal=1)]
    summary = Summary(20.0, 1, "s")
    assert words(items(*history, summary))[1:3] == ["b", "c"]
    assert seen(begun("t", [*history, summary], summary)) == seen(shown(*history, summary))


# ---------------------------------------------------------------- cuts


def test_a_cut_is_told_as_soon_as_a_request_is_shown() -> None:
    projection = shown(*TALK, said("t5"))
    assert [cut.position for cut in projection.cuts] == [1, 3]
    projection.show()
    assert [cut.position for cut in projection.cuts] == [1, 3, 5]
    assert projection.cuts[-1].size == projection.size == sum(map(weight, projection.items))
    assert [cut.size for cut in projection.cuts] == sorted({cut.size for cut in projection.cuts})


def test_sizes_and_cuts_after_a_summary_are_of_what_is_left() -> None:
    projection = shown(*TALK, said("t5"), Summary(20.0, 1, "s"))
    projection.show()
    assert projection.size == sum(map(weight, projection.items))
    [third, last] = projection.cuts
    assert (third.position, third.size) == (3, sum(map(weight, projection.items[:3])))
    assert (last.position, last.size) == (6, projection.size)


def test_an_image_counts_as_what_a_model_sees_of_it() -> None:
    image = Image("A" * 1_000_000, "image/png")
    for item in (
        InputItem(1.0, (image,)),
        items(said("x"), turn(Call("c", "see"), upto=1), Result(1.0, "c", (image,)))[2],
        items(said("x"), Happened(1.0, "c", "see", "{}", (image, Text("y"))))[1],
    ):
        assert IMAGE <= weight(item) < IMAGE + 400
    assert weight(InputItem(1.0, (Text("x" * 9_000),))) > 9_000
    assert weight(TurnItem((Text("x" * 9_000),))) > 9_000


# --------------------------------------------------------------- folds


def read(*parts: Any, **fields: Any) -> list[Message]:
    """A history in which a call has got a result."""
    return [said("go"), turn(Call("c", "read"), upto=1), Result(12.0, "c", parts, **fields)]


def folded(*history: Message, upto: int) -> list[AnyItem]:
    return items(*history, Noted(20.0, Folded(upto)))


def test_a_long_result_is_folded_to_its_beginning_and_a_name_to_read_it_by() -> None:
    history = [*read(Text(LONG), is_error=True), turn(Text("ok"), upto=3, ordinal=1)]
    result = folded(*history, upto=3)[2]
    assert isinstance(result, ResultsItem)
    [view] = result.results
    assert (view.call, view.name, view.is_error) == ("c", "read", True)
    assert view.text == (
        LONG[:600] + "\n[This is only the beginning: the whole text has 5000 characters. "
        'Call read_result with handle "t.3" for the rest.]'
    )


@pytest.mark.parametrize(
    ("source", "last"),
    [
        (Happened(5.0, "w", "watch", "{}", (Text(LONG),)), '"t.2"'),
        (Result(5.0, "w", (Text(LONG),)), '"t.2"'),
        (Result(5.0, "w", (Text(LONG),), handle="h", size=70_000), "has 70000 characters."),
        (Result(5.0, "w", (Text(LONG),), handle="h", size=70_000), 'handle "h" for the rest.]'),
        (Reported(5.0, "kid", "report", "s", "spawn", parts=(Text(LONG),)), '"t.2"'),
        (Reported(5.0, "kid", "ended", "s", "spawn", parts=(Text(LONG),)), '"t.2"'),
        (Reported(5.0, "kid", "closed", "s", "spawn", parts=(Text(LONG),)), '"t.2"'),
    ],
)
def test_long_news_is_folded_too(source: Message, last: str) -> None:
    item = folded(said("go"), source, turn(Text("ok"), upto=2), upto=2)[1]
    assert isinstance(item, InjectedItem)
    assert item.text.startswith(LONG[:600] + "\n[This is only the beginning")
    assert last in item.text


@pytest.mark.parametrize(
    "source",
    [
        Result(5.0, "w", (Text("x" * 2_000),)),
        Reported(5.0, "up", "told", "s", "spawn", parts=(Text(LONG),)),
        said(LONG),
    ],
)
def test_what_is_short_or_an_instruction_or_a_persons_stays_whole(source: Message) -> None:
    history = (said("go"), source, turn(Text("ok"), upto=2))
    assert folded(*history, upto=2) == items(*history)
    assert shown(*history).saves(2) == 0


def test_only_what_is_long_in_a_batch_and_up_to_the_position_is_folded() -> None:
    history: list[Message] = [
        said("go"),
        turn(*(Call(id, "read", index=n) for n, id in enumerate("abcd")), upto=1),
        *(Result(12.0, id, (Text(LONG if id in "bcd" else "short"),)) for id in "abc"),
        turn(Text("ok"), upto=5, ordinal=1),
    ]
    result = folded(*history, upto=4)[2]
    assert isinstance(result, ResultsItem)
    assert [len(view.text) for view in result.results] == [5, 715, 5_000, 37]
    projection = shown(*history)
    assert projection.saves(4) < projection.saves(5) < projection.saves(9) + 1
    assert projection.saves(3) == 0
    whole = projection.size
    saved = projection.saves(5)
    projection.fold(5)
    assert (projection.size, projection.saves(9)) == (whole - saved, 0)


def test_folding_twice_or_less_changes_nothing_more() -> None:
    history = [*read(Text(LONG)), turn(Text("ok"), upto=3, ordinal=1), Noted(20.0, Folded(3))]
    assert items(*history, Noted(21.0, Folded(3)), Noted(22.0, Folded(1))) == items(*history)


def test_what_is_shown_only_after_a_fold_that_covers_it_is_shown_folded() -> None:
    history = [*read(Text(LONG)), Noted(20.0, Folded(3)), Happened(21.0, "w", "watch", "{}", (Text(LONG),))]
    _, _, result, event = items(*history)
    assert len(item_text(result)) < 800
    assert len(item_text(event)) == len(LONG)


def test_images_and_files_are_folded_with_a_word_about_them() -> None:
    image, file = Image("aGk=", "image/png"), File("a.txt", text="f" * 3_000)
    result = folded(*read(Text("see"), image), turn(Text("ok"), upto=3, ordinal=1), upto=3)[2]
    assert item_text(result) == "see\n[image image/png: not shown any more]"
    result = folded(*read(image), turn(Text("ok"), upto=3, ordinal=1), upto=3)[2]
    assert item_text(result) == "[image image/png: not shown any more]"
    result = folded(*read(file), turn(Text("ok"), upto=3, ordinal=1), upto=3)[2]
    assert item_text(result).startswith("[file a.txt (text/plain)]\nfff")
    assert "has 3026 characters" in item_text(result)


def test_a_folded_beginning_has_nothing_a_provider_refuses() -> None:
    result = folded(*read(Text("a\0b" + LONG)), turn(Text("ok"), upto=3, ordinal=1), upto=3)[2]
    assert item_text(result).startswith("a\ufffdbabc")


def test_a_child_that_folds_folds_its_lineage_by_the_names_of_its_threads() -> None:
    child = shown(*read(Text(LONG)), turn(Text("ok"), upto=3, ordinal=1), thread="parent")
    child.enter("child")
    own = (Noted(2.0, Born("a")), said("own"), turn(Text("o"), upto=2))
    for message in own:
        child.add(message)
    assert child.saves(1) == child.saves(0) > 4_000
    child.add(Noted(30.0, Folded(2)))
    assert '"parent.3"' in item_text(child.items[2])


def test_a_fold_and_a_summary_go_together() -> None:
    history = [
        *read(Text(LONG)),
        turn(Call("d", "read"), upto=3, ordinal=1),
        Result(13.0, "d", (Text(LONG),)),
        turn(Text("ok"), upto=5, ordinal=2),
    ]
    summary, fold = Summary(20.0, 3, "s"), Noted(21.0, Folded(5))
    assert items(*history, summary, fold) == items(*history, fold, summary)
    assert '"t.5"' in item_text(items(*history, summary, fold)[2])
    assert shown(*history, summary).saves(9) > 4_000
    orders: list[list[Message]] = [[summary, fold], [fold, summary]]
    for order in orders:
        whole: list[Message] = [*history, *order]
        assert seen(begun("t", whole, summary)) == seen(shown(*whole))
