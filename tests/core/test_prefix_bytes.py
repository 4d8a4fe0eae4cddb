"""Random lives as bytes that leave: each request is the one before and more, valid, and asks something."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings

from tests.core.histories import EXAMPLES, Move, live, lives, searched
from torpor.models import Anthropic, OpenAI
from torpor.testing.pairing import check_anthropic, check_openai

OPENAI = OpenAI("m", base_url="http://127.0.0.1:1")
ANTHROPIC = Anthropic("claude-x", base_url="http://127.0.0.1:1", api_key="none")


@pytest.mark.slow
@settings(searched, max_examples=EXAMPLES or 20)
@given(lives)
def test_requests_only_grow_at_the_end_as_the_bytes_that_are_sent(
    life: tuple[str, int, list[Move], bool],
) -> None:
    requests = live(*life).played.requests
    for model in (OPENAI, ANTHROPIC):
        sent = [model.wire_bytes(request) for request in requests]
        assert all(body.endswith(b"]}") for body in sent)
        for before, after in pairwise(sent):
            assert after.startswith(before.removesuffix(b"]}"))
    for request in requests:
        check_openai(json.loads(OPENAI.wire_bytes(request))["messages"], asking=True)
        check_anthropic(json.loads(ANTHROPIC.wire_bytes(request))["messages"], asking=True)
