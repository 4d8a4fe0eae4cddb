"""The rules refuse what providers refuse."""

from typing import Any

import pytest

from torpor.testing.pairing import check_anthropic, check_openai

Message = dict[str, Any]

HI: Message = {"role": "user", "content": "Hi"}


def calling(*ids: str, **more: Any) -> Message:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "tool_calls": calls, **more}


def answer(identity: str, content: str = "A") -> Message:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def with_function(**function: Any) -> Message:
    message = calling("a")
    message["tool_calls"][0]["function"].update(function)
    return message


def test_openai_accepts_a_whole_conversation() -> None:
    said = {"role": "assistant", "content": "Yes."}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    shown = {"role": "user", "content": [{"type": "text", "text": "see"}, picture]}
    system = {"role": "system", "content": "Be brief."}
    check_openai([system, HI, calling("a", "b"), answer("a"), answer("b"), shown, HI, said, HI], asking=True)


@pytest.mark.parametrize(
    ("messages", "what"),
    [
        ([HI, calling("a")], "not answered"),
        ([HI, calling("a"), HI], "before the result"),
        ([HI, calling("a"), answer("b")], "where that of"),
        ([HI, calling("a", "b"), answer("b"), answer("a")], "where that of"),
        ([HI, calling("a"), answer("a"), answer("a")], "does not follow"),
        ([HI, answer("a")], "does not follow"),
        ([HI, calling("a"), answer("a"), calling("a"), answer("a")], "used before"),
        ([HI, calling("a", "a"), answer("a"), answer("a")], "used before"),
        ([HI, calling("a b"), answer("a b")], "letters"),
        ([HI, calling("a"), answer("a", " ")], "blank result"),
        ([HI, calling("a", content=""), answer("a")], "blank or absent"),
        ([HI, calling("a", content=None), answer("a")], "blank or absent"),
        ([HI, calling()], "empty list"),
        ([HI, {"role": "assistant"}], "nothing in it"),
        ([HI, with_function(arguments="{"), answer("a")], "no JSON object"),
        ([HI, with_function(arguments="[]"), answer("a")], "no JSON object"),
        ([HI, with_function(name="a b"), answer("a")], "a call of"),
        ([{"role": "user", "content": " "}], "blank"),
        ([{"role": "user", "content": []}], "no content"),
        ([{"role": "user", "content": [{"type": "text", "text": ""}]}], "blank"),
        ([{"role": "user", "content": [{"type": "audio"}]}], "type 'audio'"),
        ([HI, {"role": "system", "content": "x"}], "not first"),
        ([{"role": "robot", "content": "x"}], "unknown role"),
    ],
)
def test_openai_refuses(messages: list[Message], what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        check_openai(messages)


def test_openai_asks_with_something_to_answer() -> None:
    with pytest.raises(AssertionError, match="nothing to answer"):
        check_openai([HI, {"role": "assistant", "content": "x"}], asking=True)


def user(*blocks: Message) -> Message:
    return {"role": "user", "content": list(blocks)}


def model(*blocks: Message) -> Message:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str = "Hi") -> Message:
    return {"type": "text", "text": words}


def use(identity: str, name: str = "f", given: Any = None) -> Message:
    return {"type": "tool_use", "id": identity, "name": name, "input": {} if given is None else given}


def result(identity: str, *blocks: Message) -> Message:
    return {"type": "tool_result", "tool_use_id": identity, "content": list(blocks or [text()])}


THOUGHT: Message = {"type": "thinking", "thinking": "", "signature": "s"}
CALLED = [user(text()), model(THOUGHT, use("a"), use("b"))]


def test_anthropic_accepts_a_whole_conversation() -> None:
    redacted = {"type": "redacted_thinking", "data": "x"}
    picture = {"type": "image", "source": {"data": "AA=="}}
    check_anthropic(
        [
            *CALLED,
            user(result("a"), result("b", picture), text()),
            user(text()),
            model(redacted, text()),
            user(text()),
        ],
        thinking=True,
        asking=True,
    )


@pytest.mark.parametrize(
    ("messages", "what"),
    [
        (CALLED, "not answered"),
        ([*CALLED, model(text())], "not answered"),
        ([*CALLED, user(text())], "where those of"),
        ([*CALLED, user(result("a"))], "where those of"),
        ([*CALLED, user(result("b"), result("a"))], "where those of"),
        ([*CALLED, user(result("a")), user(result("b"))], "where those of"),
        ([*CALLED, user(text(), result("a"), result("b"))], "before the results"),
        ([*CALLED, user(result("a"), result("b"), result("b"))], "where those of"),
        ([user(result("a"))], "where those of"),
        ([user(text()), model(use("a"), use("a")), user(result("a"), result("a"))], "used before"),
        ([user(text()), model(use("a/b")), user(result("a/b"))], "letters"),
        ([user(text()), model(use("a", "b c")), user(result("a"))], "a call of"),
        ([user(text()), model(use("a", given=[])), user(result("a"))], "no object"),
        ([user(text()), model(use("a")), user({**result("a"), "content": []})], "nothing in it"),
        ([user(text()), model(use("a")), user(result("a", text("")))], "blank"),
        ([user(text()), model(text(" "))], "blank"),
        ([user(text(""))], "blank"),
        ([user()], "no content"),
        ([{"role": "user", "content": "Hi"}], "no content"),
        ([user({"type": "audio"})], "type 'audio'"),
        ([user({"type": "image", "source": {"data": ""}})], "without bytes"),
        ([user(text()), model(text(), {"type": "audio"})], "type 'audio'"),
        ([user(text()), model(THOUGHT)], "ends in thinking"),
        ([user(text()), model({**THOUGHT, "signature": ""}, text())], "without its signature"),
        ([model(text())], "speaks first"),
        ([{"role": "system", "content": [text()]}], "unknown role"),
    ],
)
def test_anthropic_refuses(messages: list[Message], what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        check_anthropic(messages)


def test_anthropic_with_a_budget_wants_thought_before_calls() -> None:
    messages = [user(text()), model(use("a"), THOUGHT, text()), user(result("a"))]
    check_anthropic(messages)
    with pytest.raises(AssertionError, match="begins with 'tool_use'"):
        check_anthropic(messages, thinking=True)
    check_anthropic([*messages, model(text())], thinking=True)


def test_anthropic_asks_with_something_to_answer() -> None:
    with pytest.raises(AssertionError, match="nothing to answer"):
        check_anthropic([user(text()), model(text())], asking=True)
