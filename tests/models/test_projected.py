"""Random lives of threads as the two providers see them: what was sent stays, and all of it is valid."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.histories import Move, live, moves
from torpor.core.messages import Detached, Happened, Noted, Reasoning, Turn
from torpor.core.request import AnyItem, Request, TurnItem
from torpor.models import Anthropic, OpenAI
from torpor.testing.pairing import check_anthropic, check_openai

Life = tuple[str, int, list[Move], bool]
LIVES = 10
"""Of each way of waking."""


def long_lives(wake: str) -> st.SearchStrategy[Life]:
    """Lives long enough that most have everything in them."""
    steps = st.lists(moves, min_size=45, max_size=60)
    return st.tuples(st.just(wake), st.sampled_from([1, 2, 8]), steps, st.just(False))


OPENAI = OpenAI("m", base_url="http://127.0.0.1:1")
PLAIN = Anthropic("claude-sonnet-5")
ADAPTIVE = Anthropic("claude-sonnet-5", thinking="adaptive")
BUDGETED = Anthropic("claude-opus-4-5", thinking=2048)


searched = settings(
    max_examples=LIVES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def signed(request: Request) -> Request:
    """The same with reasoning that Anthropic itself would have signed."""
    return msgspec.structs.replace(request, items=tuple(map(_signed, request.items)))


def _signed(item: AnyItem) -> AnyItem:
    if not isinstance(item, TurnItem):
        return item
    return TurnItem(
        tuple(
            msgspec.structs.replace(part, origin="anthropic") if isinstance(part, Reasoning) else part
            for part in item.parts
        )
    )


def check(model: OpenAI | Anthropic, requests: list[Request]) -> None:
    """Each request obeys the rules, and each is the one before and more."""
    sent = []
    for request in requests:
        bytes_ = model.wire_bytes(request)
        body: dict[str, Any] = json.loads(bytes_)
        if isinstance(model, OpenAI):
            check_openai(body["messages"])
        else:
            check_anthropic(body["messages"], thinking="budget_tokens" in body.get("thinking", {}))
        sent.append(bytes_[bytes_.index(b'"messages":') if model is BUDGETED else 0 :])
    for shorter, longer in pairwise(sent):
        assert longer.startswith(shorter.removesuffix(b"]}"))


class Census:
    """How many of the lives had what."""

    def __init__(self) -> None:
        self.lives = 0
        self.found = dict.fromkeys(["detached", "each", "events", "cut"], 0)

    def count(self, wake: str, messages: list[Any]) -> None:
        self.lives += 1
        notes = [message.note for message in messages if isinstance(message, Noted)]
        self.found["each"] += wake == "each"
        self.found["detached"] += any(isinstance(note, Detached) for note in notes)
        self.found["events"] += any(isinstance(message, Happened) for message in messages)
        self.found["cut"] += any(isinstance(message, Turn) and message.cut for message in messages)


@pytest.mark.slow
def test_every_request_of_a_random_life_is_the_one_before_and_more() -> None:
    census = Census()

    def run(life: Life) -> None:
        played = live(*life).played
        census.count(life[0], played.messages)
        requests = [signed(request) for request in played.requests]
        for model in (OPENAI, PLAIN, ADAPTIVE, BUDGETED):
            check(model, requests)

    for wake in ("all", "each"):
        searched(given(long_lives(wake))(run))()
    assert census.lives >= 2 * LIVES
    assert all(found >= census.lives / 3 for found in census.found.values()), census.found
