"""For any history: what was sent stays sent, byte for byte, and every message obeys its provider's rules."""

import json
import struct
from base64 import b64encode
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torpor.core.messages import Call, File, Image, Part, Reasoning, Text
from torpor.core.request import (
    AnyItem,
    InjectedItem,
    InputItem,
    NoticeItem,
    Request,
    ResultsItem,
    ResultView,
    Tool,
    TurnItem,
)
from torpor.models import Anthropic, OpenAI
from torpor.testing.pairing import check_anthropic, check_openai


def gif(width: int, height: int) -> str:
    """The beginning of a picture, which tells its size."""
    return b64encode(b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0").decode()


TEXTS = st.text(max_size=20) | st.sampled_from(["", " ", "\u2028", "a\nb", "🌍", "\ud83d"])
JSONS = st.sampled_from(["", "{}", '{"a": [1, 2.50, "\\u00fc"]}', "[1]", '{"cut', '{"n": NaN}', "null"])
NAMES = st.sampled_from(["read", "watch", "", "no such tool", "é"])
SIZES = st.sampled_from([(10, 10), (1999, 9), (2001, 9), (9, 4000), (8001, 9)])
PICTURES = st.builds(lambda size: Image(gif(*size), "image/gif"), SIZES)
IMAGES = PICTURES | st.builds(
    Image, st.sampled_from(["", "aGVsbG8="]), st.sampled_from(["image/png", "image/tiff"])
)
PARTS: st.SearchStrategy[tuple[Part, ...]] = st.lists(
    st.builds(Text, TEXTS) | IMAGES | st.builds(File, NAMES, text=TEXTS), max_size=3
).map(tuple)
THOUGHTS = st.builds(
    Reasoning,
    TEXTS,
    st.sampled_from(["", "c2ln"]),
    st.sampled_from(["", "anthropic", "anthropic:redacted", "scripted"]),
)
WORDS = st.lists(st.builds(Text, TEXTS) | THOUGHTS, max_size=3)
FIRST = InputItem(0.0, (Text("Hello"),))


@st.composite
def exchanges(draw: st.DrawFn) -> list[list[AnyItem]]:
    """Groups of items that only ever come together: a turn with calls and their results are one."""
    groups: list[list[AnyItem]] = [[FIRST]]
    kinds = draw(st.lists(st.sampled_from(["input", "turn", "news", "notice"]), max_size=12))
    for count, kind in enumerate(kinds):
        at = float(draw(st.integers(0, 2_000_000_000)))
        if kind == "input":
            groups.append([InputItem(at, draw(PARTS))])
        elif kind == "notice":
            groups.append([NoticeItem("Set aside.")])
        elif kind == "news":
            arguments = draw(st.sampled_from(["{}", '{"dir": "/x"}']))
            name = draw(NAMES)
            groups.append([InjectedItem(f"news{count}", name, "c0", arguments, draw(PARTS), at)])
        else:
            groups.append(_turn(draw, count))
    return groups


def _turn(draw: st.DrawFn, count: int) -> list[AnyItem]:
    calls = [
        Call(f"call{count}_{n}", draw(NAMES), draw(JSONS), provider_id="call_0", index=n)
        for n in range(draw(st.integers(0, 3)))
    ]
    parts: list[Any] = draw(WORDS)
    for call in calls:
        parts = [*parts, call, *draw(WORDS)]
    turn = TurnItem(tuple(parts))
    if not calls:
        return [turn]
    views = tuple(ResultView(c.id, c.name, draw(PARTS), draw(st.booleans())) for c in calls)
    return [turn, ResultsItem(views)]


def request(groups: list[list[AnyItem]]) -> Request:
    items = tuple(item for group in groups for item in group)
    tools = (Tool("read", "Reads.", {"type": "object"}),)
    return Request("tester", "any", "Be brief.", tools, items, {"max_tokens": 9000})


MODELS: list[OpenAI | Anthropic] = [
    OpenAI("m", base_url="http://127.0.0.1:1"),
    OpenAI("m", base_url="http://127.0.0.1:1", images=False),
    Anthropic("claude-sonnet-5"),
    Anthropic("claude-sonnet-5", thinking="adaptive"),
]
BUDGETED = Anthropic("claude-opus-4-5", thinking=2048)


@pytest.mark.parametrize("model", MODELS)
@settings(deadline=None, max_examples=60)
@given(groups=exchanges())
def test_a_longer_request_is_the_shorter_one_and_more(
    model: OpenAI | Anthropic, groups: list[list[AnyItem]]
) -> None:
    """All of the body counts: messages stand last in it, so that only its closing brackets may differ."""
    bodies = [model.wire_bytes(request(groups[:size])) for size in range(1, len(groups) + 1)]
    for shorter, longer in pairwise(bodies):
        assert shorter.endswith(b"]}")
        assert longer.startswith(shorter[:-2])


@pytest.mark.parametrize("model", MODELS)
@settings(deadline=None, max_examples=60)
@given(groups=st.lists(st.lists(PICTURES, min_size=1, max_size=15), min_size=1, max_size=6))
def test_many_images_change_nothing_that_was_sent(
    model: OpenAI | Anthropic, groups: list[list[Image]]
) -> None:
    items: list[list[AnyItem]] = [[InputItem(0.0, tuple(group))] for group in groups]
    bodies = [model.wire_bytes(request(items[:size])) for size in range(1, len(items) + 1)]
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter[:-2])


@settings(deadline=None, max_examples=60)
@given(groups=exchanges())
def test_with_a_thinking_budget_the_messages_still_only_grow(groups: list[list[AnyItem]]) -> None:
    bodies = [BUDGETED.wire_bytes(request(groups[:size])) for size in range(1, len(groups) + 1)]
    sent = [body[body.index(b'"messages":') :] for body in bodies]
    for shorter, longer in pairwise(sent):
        assert longer.startswith(shorter[:-2])


@pytest.mark.parametrize("model", [*MODELS, BUDGETED])
@settings(deadline=None, max_examples=60)
@given(groups=exchanges())
def test_every_request_obeys_the_rules(model: OpenAI | Anthropic, groups: list[list[AnyItem]]) -> None:
    for size in range(1, len(groups) + 1):
        body = json.loads(model.wire_bytes(request(groups[:size])))
        if isinstance(model, OpenAI):
            check_openai(body["messages"])
        else:
            check_anthropic(body["messages"], thinking="budget_tokens" in body.get("thinking", {}))
