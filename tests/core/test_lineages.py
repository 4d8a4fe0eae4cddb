"""Children and summaries in random lives: prefixes stay, requests are valid, loading anew changes nothing."""

import json
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.histories import EXAMPLES, Move, live, moves, searched
from tests.core.threading_lives import Items, begun, child_of, inserted, played, renamed, request, seen
from torpor.core.messages import Call, Folded, Happened, Link, Message, Noted, Result, Summary, Text, Turn
from torpor.core.projection import Projection
from torpor.core.request import InjectedItem, SummaryItem, TurnItem
from torpor.models import Anthropic, OpenAI
from torpor.testing.pairing import check_anthropic, check_openai

Life = tuple[str, int, list[Move], bool]

OPENAI = OpenAI("m", base_url="http://127.0.0.1:1")
ANTHROPIC = Anthropic("claude-x", base_url="http://127.0.0.1:1", api_key="none")

searched = settings(searched, max_examples=EXAMPLES or 8)
place = st.integers(0, 10_000)
lives = st.tuples(
    st.sampled_from(["all", "each"]),
    st.sampled_from([1, 2, 8]),
    st.lists(moves, min_size=14, max_size=24),
    st.just(False),
)


def check_valid(asked: Sequence[Items]) -> None:
    """By the rules of both providers; also once all has been shown."""
    for items in asked:
        check_openai(json.loads(OPENAI.wire_bytes(request(items)))["messages"], asking=True)
        check_anthropic(json.loads(ANTHROPIC.wire_bytes(request(items)))["messages"], asking=True)


def check_grows(asked: Sequence[Items]) -> None:
    """Each request is the one before and more, as the bytes that are sent."""
    for model in (OPENAI, ANTHROPIC):
        sent = [model.wire_bytes(request(items)) for items in asked]
        for before, after in pairwise(sent):
            assert after.startswith(before.removesuffix(b"]}"))


def turns_of(messages: Sequence[Message]) -> list[int]:
    """Positions of turns that are shown and have calls."""
    found, answered = [], 0
    for position, message in enumerate(messages, 1):
        if isinstance(message, Turn) and message.upto > answered:
            answered = message.upto
            if any(isinstance(part, Call) for part in message.parts):
                found.append(position)
    return found


def shown_to(messages: Sequence[Message], upto: int) -> Projection:
    return played(messages[:upto], Projection("parent"))[1]


@pytest.mark.slow
@searched
@given(lives, lives, place)
def test_a_childs_prefix_is_its_parents_and_only_grows(first: Life, second: Life, where: int) -> None:
    parent, own = live(*first).played.messages, renamed(live(*second).played.messages, "c")
    turns = turns_of(parent)
    if not turns:
        return
    upto = turns[where % len(turns)]
    turn = parent[upto - 1]
    assert isinstance(turn, Turn)
    [call, *_] = [part.id for part in turn.parts if isinstance(part, Call)]
    projection = shown_to(parent, upto)
    prefix = list(projection.items)
    assert isinstance(prefix[-1], TurnItem)
    projection.enter("child")
    asked, whole = played(child_of(own, (Link("parent", upto),), call), projection)
    for items in asked:
        assert list(items[: len(prefix)]) == prefix
    check_valid([*asked, seen(whole)[0]])
    check_grows(asked)
    check_grandchild(own, whole, turn)


def check_grandchild(own: Sequence[Message], whole: Projection, turn: Turn) -> None:
    """A child of that child, for events."""
    prefix = list(whole.items)
    whole.enter("grandchild")
    asked, last = played(
        child_of(renamed(own, "g"), (Link("parent", 1), Link("child", 1)), "", "event"), whole
    )
    for items in asked:
        assert list(items[: len(prefix)]) == prefix
    check_valid([*asked, seen(last)[0]])
    check_grows(asked)
    ids = [item.id for item in last.items if isinstance(item, InjectedItem)]
    assert len(ids) == len(set(ids))


@pytest.mark.slow
@searched
@given(lives, st.lists(st.tuples(place, place), min_size=1, max_size=3))
def test_summaries_and_what_is_loaded_after_them(life: Life, places: list[tuple[int, int]]) -> None:
    """CMP-01, CMP-02, CMP-10: any position a turn has answered, once, twice or three times."""
    messages = lengthened(live(*life).played.messages)
    covered = 0
    for number, (cut, at) in enumerate(places):
        cuts = [one for one in played(messages, Projection("t"))[1].cuts if one.position > covered]
        turns = {
            message.upto: place
            for place, message in reversed([*enumerate(messages, 1)])
            if isinstance(message, Turn)
        }
        cuts = [one for one in cuts if one.position in turns]
        if not cuts:
            return
        cuts = [one for one in cuts if one.calls] or cuts
        chosen = cuts[cut % len(cuts)]
        first = turns[chosen.position] + 1
        place = first + at % (len(messages) + 2 - first)
        summary = Summary(5.0, chosen.position, f"<sum {number}>", "facts", chosen.calls)
        before = played(messages[: place - 1], Projection("t"))[1]
        kept = before.items[chosen_index(before, chosen.position) :]
        messages = inserted(messages, place, summary)
        covered = chosen.position
        check_summed_up(messages, summary, place, kept)


def answering(messages: Sequence[Message]) -> dict[int, int]:
    """Where the turn stands that has answered a position first."""
    found: dict[int, int] = {}
    for position, message in enumerate(messages, 1):
        if isinstance(message, Turn):
            found.setdefault(message.upto, position)
    return found


def lengthened(messages: Sequence[Message]) -> list[Message]:
    """The same with long results in every third place."""
    return [_long(one) if place % 3 == 0 else one for place, one in enumerate(messages)]


def _long(message: Message) -> Message:
    if not isinstance(message, Result | Happened):
        return message
    return msgspec.structs.replace(message, parts=(*message.parts, Text("x" * 3_000)))


def chosen_index(projection: Projection, position: int) -> int:
    [index] = [cut.index for cut in projection.cuts if cut.position == position]
    return index


def check_summed_up(messages: list[Message], summary: Summary, place: int, kept: Sequence[object]) -> None:
    after = played(messages[:place], Projection("t"))[1]
    assert after.items[0] == SummaryItem(5.0, summary.text, "facts")
    assert after.items[1:] == kept  # what is not covered stays as it was, byte for byte
    asked, whole = played(messages, Projection("t"))
    check_valid([*asked, seen(whole)[0]])
    loaded = begun("t", messages, summary)
    assert seen(loaded) == seen(whole)
    later = [items for items in asked if items[0] == after.items[0]]
    check_grows(later)


@pytest.mark.slow
@searched
@given(lives, place, place)
def test_folding_is_the_same_live_and_loaded(life: Life, where: int, at: int) -> None:
    messages = lengthened(live(*life).played.messages)
    place = 1 + at % (len(messages) + 1)
    before = played(messages[: place - 1], Projection("t"))[1]
    upto = max(where % place, before.position // 2)
    saved, size = before.saves(upto), before.size
    messages = inserted(messages, place, Noted(5.0, Folded(upto)))
    after = played(messages[:place], Projection("t"))[1]
    assert after.size == size - saved
    assert after.saves(upto) == 0
    asked, whole = played(messages, Projection("t"))
    check_valid([*asked, seen(whole)[0]])
