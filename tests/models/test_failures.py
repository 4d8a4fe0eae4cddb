"""Failures of providers as our errors, over real HTTP."""

import json
import math
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.models.replay import Reply, replaying
from torpor.core.errors import ModelRefused, Refused, TorporError, Unavailable
from torpor.core.request import Attempt
from torpor.models import Anthropic, OpenAI
from torpor.models.failures import Facts, clean, facts_of, kind_of, retry_after_of
from torpor.testing.model_contract import ASKED

pytestmark = pytest.mark.usefixtures("no_keys")

KEY = "sk-proj-abcdefghijkl"


def failing(status: int, error: Any, **headers: str) -> Reply:
    body = error if isinstance(error, bytes) else json.dumps({"error": error}).encode()
    return Reply([body], status, {name.replace("_", "-"): value for name, value in headers.items()})


async def failure(reply: Reply, provider: str = "openai") -> TorporError:
    """The error, and the proof that one request left."""
    async with replaying(reply) as replay:
        model: OpenAI | Anthropic = (
            OpenAI("m", base_url=replay.url, api_key=KEY)
            if provider == "openai"
            else Anthropic("m", base_url=replay.url, api_key=KEY)
        )
        with pytest.raises(TorporError) as caught:
            _ = [chunk async for chunk in model.stream(ASKED, Attempt("t", 0))]
        await model.close()
        assert len(replay.seen) == 1
    assert KEY not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass(provider: str, status: int) -> None:
    """Case RET-04: by status, with neither a header nor familiar words."""
    error = await failure(failing(status, "Provider returned error"), provider)
    assert isinstance(error, Unavailable)
    assert error.retry_after is None


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "request"),
        (401, "auth"),
        (402, "quota"),
        (403, "auth"),
        (404, "request"),
        (413, "context"),
        (422, "request"),
    ],
)
async def test_what_will_not_pass(provider: str, status: int, kind: str) -> None:
    error = await failure(failing(status, {"message": "no"}), provider)
    assert isinstance(error, ModelRefused)
    assert isinstance(error, Refused)
    assert error.kind == kind


@pytest.mark.parametrize("headers", [{"retry_after": "37"}, {"retry_after_ms": "37000", "retry_after": "99"}])
async def test_obeys_retry_after(headers: dict[str, str]) -> None:
    error = await failure(failing(429, {"code": "rate_limit_exceeded"}, **headers))
    assert isinstance(error, Unavailable)
    assert error.retry_after == pytest.approx(37)


async def test_a_wait_of_days_is_told_and_not_slept() -> None:
    """Case RET-02."""
    error = await failure(failing(429, {}, retry_after="1382400"))
    assert isinstance(error, Unavailable)
    assert error.retry_after == 1_382_400


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, {"type": "insufficient_quota", "code": "insufficient_quota"}),
        (429, {"type": "insufficient_quota", "code": None}),
        (429, {"type": "insufficient_quota", "code": "project_spend_limit_exceeded"}),
        (429, {"code": "credit_balance_exhausted"}),
        (429, {"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}}),
        (400, {"type": "billing_error"}),
    ],
)
async def test_used_up_money_is_no_throttling(status: int, error: dict[str, Any]) -> None:
    """Case RET-01."""
    refused = await failure(failing(status, error, retry_after="3"))
    assert isinstance(refused, ModelRefused)
    assert refused.kind == "quota"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("context_length_exceeded", "context"),
        ("content_filter", "content"),
        ("content_policy_violation", "content"),
    ],
)
async def test_codes_say_more_than_the_status(code: str, kind: str) -> None:
    error = await failure(failing(400, {"type": "invalid_request_error", "code": code, "message": "no"}))
    assert isinstance(error, ModelRefused)
    assert error.kind == kind


async def test_words_decide_nothing() -> None:
    told = {
        "message": "insufficient_quota: context_length_exceeded, please try again",
        "type": "server_error",
    }
    assert isinstance(await failure(failing(500, told)), Unavailable)


@pytest.mark.parametrize(
    "body", [b"", b"<html>\x1b[2J bad gateway</html>", b"[1, 2]", b"\xff\xfe", b'{"error": [1]}']
)
async def test_any_body_will_do(body: bytes) -> None:
    assert isinstance(await failure(failing(502, body)), Unavailable)


async def test_texts_hold_no_key_and_no_escape() -> None:
    told = {"message": f"bad \x1b[31m key {KEY} or sk-ant-other-key-123456 \n\n" + "x" * 1000, "code": "odd"}
    text = str(await failure(failing(400, told)))
    assert "sk-" not in text
    assert text.isprintable()
    assert len(text) < 500
    assert "odd" in text


async def test_of_a_refused_key_nothing_is_quoted() -> None:
    error = await failure(
        failing(401, {"message": "Incorrect API key provided: abc***xyz", "code": "invalid_api_key"})
    )
    assert "abc" not in str(error)
    assert "check the API key" in str(error)


@pytest.mark.parametrize("provider", [OpenAI, Anthropic])
async def test_nobody_there(provider: type[OpenAI | Anthropic]) -> None:
    async with replaying(Reply()) as replay:
        url = replay.url
    model = provider("m", base_url=url, connect=2)
    with pytest.raises(Unavailable):
        _ = [chunk async for chunk in model.stream(ASKED, Attempt("t", 0))]
    await model.close()


@pytest.mark.parametrize("provider", [OpenAI, Anthropic])
@pytest.mark.parametrize("url", ["ftp://me:secret@127.0.0.1/", "nonsense", "http://", "http://[::1"])
def test_an_address_that_is_none(provider: type[OpenAI | Anthropic], url: str) -> None:
    with pytest.raises(Refused, match="no address") as caught:
        provider("m", base_url=url)
    assert "secret" not in str(caught.value)


async def test_without_any_key_the_text_says_which_variable() -> None:
    with pytest.raises(ModelRefused, match="OPENAI_API_KEY") as caught:
        _ = [chunk async for chunk in OpenAI("gpt-5-mini").stream(ASKED, Attempt("t", 0))]
    assert caught.value.kind == "auth"


async def test_without_any_key_at_anthropic_neither() -> None:
    with pytest.raises(ModelRefused) as caught:
        _ = [chunk async for chunk in Anthropic("claude-sonnet-5").stream(ASKED, Attempt("t", 0))]
    assert caught.value.kind == "auth"
    assert "ANTHROPIC_API_KEY" in str(caught.value)


async def test_an_sdk_that_cannot_be_set_up_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_PROFILE", "nowhere")
    with pytest.raises(ModelRefused, match="nowhere") as caught:
        _ = [chunk async for chunk in Anthropic("claude-sonnet-5").stream(ASKED, Attempt("t", 0))]
    assert caught.value.kind == "auth"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Mon, 99 Foo 2026 00:00:00 GMT"}, None),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 366 * 86400.0),
    ],
)
def test_retry_after_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_of(headers, time.time()) == seconds


def test_retry_after_as_a_date() -> None:
    now = 1_790_000_000.0
    waited = retry_after_of({"retry-after": formatdate(now + 90, usegmt=True)}, now)
    assert waited is not None
    assert math.isclose(waited, 90)
    assert retry_after_of({"retry-after": formatdate(now - 90, usegmt=True)}, now) == 0


def test_a_status_of_the_body_counts_only_where_there_is_none() -> None:
    body = {"error": {"code": 429}}
    assert facts_of("p", status=0, body=body, headers={}).status == 429
    assert facts_of("p", status=400, body=body, headers={}).status == 400
    assert facts_of("p", status=0, body={"error": {"code": "1234"}}, headers={}).status == 0


def test_kinds_without_a_status() -> None:
    assert kind_of(Facts("p")) == ""
    assert kind_of(Facts("p", names=frozenset({"permission_error"}))) == "auth"
    assert kind_of(Facts("p", names=frozenset({"not_found_error"}))) == "request"


def test_clean_is_one_line() -> None:
    assert clean("a\r\n\tb\x00") == "a b"


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        (OpenAI("m", base_url="http://127.0.0.1:1"), {"messages": []}),
        (Anthropic("m"), {"stream": False}),
        (Anthropic("m", thinking=2_000), {"max_tokens": 2_000}),
        (Anthropic("m"), {"thinking": 5}),
    ],
)
def test_what_its_own_settings_make_impossible_is_no_fault_of_the_input(
    model: OpenAI | Anthropic, settings: dict[str, Any]
) -> None:
    with pytest.raises(ModelRefused) as caught:
        model.wire(msgspec.structs.replace(ASKED, settings=settings))
    assert caught.value.kind == "setup"
