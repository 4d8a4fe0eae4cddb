"""Providers' rules for which messages may follow which: checks that raise ``AssertionError`` and say where.

They are stricter than the providers where the providers differ among themselves: whatever passes here is
accepted by all of them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

Wire = Mapping[str, Any]

IDENTITY = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
CHAT_ROLES = frozenset({"system", "user", "assistant", "tool"})


def check_openai(messages: Sequence[Wire], *, asking: bool = False) -> None:
    """Chat Completions: each call answered exactly once, by the very next messages, in call order.

    Ids are unique, no content is blank, arguments are JSON objects, and the system message is first.
    ``asking``: the last message is not the model's own.
    """
    seen: set[str] = set()
    at = 0
    while at < len(messages):
        message, where = messages[at], f"message {at + 1}"
        role = message.get("role")
        _must(role in CHAT_ROLES, where, f"unknown role {role!r}")
        _must(role != "system" or at == 0, where, "a system message that is not first")
        _must(role != "tool", where, "a result that does not follow its call")
        at += 1
        if role == "assistant":
            at = _answers(messages, at, _chat_calls(message, where, seen))
        else:
            _chat_content(message.get("content"), where)
    if asking:
        _must(bool(messages) and messages[-1]["role"] != "assistant", "the end", "nothing to answer")


def _chat_calls(message: Wire, where: str, seen: set[str]) -> list[str]:
    """The ids of an assistant message's calls."""
    content, calls = message.get("content"), message.get("tool_calls")
    _must("content" not in message or _is_words(content), where, "blank or absent text beside a call")
    _must("tool_calls" not in message or bool(calls), where, "an empty list of calls")
    _must(bool(calls) or _is_words(content), where, "an assistant message with nothing in it")
    ids = []
    for call in calls or ():
        function = call["function"]
        _must(call["type"] == "function", where, "a call that is no function")
        _must(bool(NAME.fullmatch(function["name"])), where, f"a call of {function['name']!r}")
        _must(isinstance(_object(function["arguments"]), dict), where, "arguments that are no JSON object")
        ids.append(_fresh(call["id"], where, seen))
    return ids


def _answers(messages: Sequence[Wire], at: int, calls: list[str]) -> int:
    """Check that the next messages answer the calls; gives the position after them."""
    for call in calls:
        where = f"message {at + 1}"
        _must(at < len(messages), where, f"call {call} is not answered")
        message = messages[at]
        _must(message.get("role") == "tool", where, f"{message.get('role')!r} before the result of {call}")
        answered = message.get("tool_call_id")
        _must(answered == call, where, f"the result of {answered!r} where that of {call!r} belongs")
        _must(_is_words(message.get("content")), where, "a blank result")
        at += 1
    return at


def _chat_content(content: object, where: str) -> None:
    if isinstance(content, str):
        _must(bool(content.strip()), where, "blank text")
        return
    _must(isinstance(content, list) and bool(content), where, "no content")
    assert isinstance(content, list)
    for part in content:
        if part["type"] == "text":
            _must(bool(part["text"].strip()), where, "a blank text part")
        else:
            _must(part["type"] == "image_url", where, f"a part of type {part['type']!r}")
            _must(part["image_url"]["url"].startswith("data:image/"), where, "an image that is no data URL")


def check_anthropic(messages: Sequence[Wire], *, thinking: bool = False, asking: bool = False) -> None:
    """Messages API: all results of a turn in the very next user message, in call order, before anything else.

    Ids are unique, no text is blank, thinking is signed and never last. ``thinking``: it is on with a budget,
    so that the last turn begins with a thinking block, if it has calls. ``asking``: a user's message is last.
    """
    seen: set[str] = set()
    owed: list[str] = []
    last = first = ""
    for number, message in enumerate(messages, 1):
        where = f"message {number}"
        role, blocks = message.get("role"), message.get("content")
        _must(role in {"user", "assistant"}, where, f"unknown role {role!r}")
        _must(isinstance(blocks, list) and bool(blocks), where, "no content")
        assert isinstance(blocks, list)
        if role == "user":
            _user_blocks(blocks, owed, where)
            owed = []
            continue
        _must(number > 1, where, "the model speaks first")
        _must(not owed, where, f"calls {owed} are not answered")
        owed = _model_blocks(blocks, where, seen)
        last, first = (where if owed else ""), blocks[0]["type"]
    _must(not owed, "the end", f"calls {owed} are not answered")
    if thinking and last:
        _must("thinking" in first, last, f"the last turn has calls and begins with {first!r}")
    if asking:
        _must(bool(messages) and messages[-1]["role"] == "user", "the end", "nothing to answer")


def _user_blocks(blocks: list[Wire], owed: list[str], where: str) -> None:
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    _must(results == owed, where, f"results of {results} where those of {owed} belong")
    first = [block["type"] for block in blocks[: len(results)]]
    _must(set(first) <= {"tool_result"}, where, "something before the results")
    for block in blocks:
        if block["type"] == "tool_result":
            _must(bool(block["content"]), where, "a result with nothing in it")
            for inner in block["content"]:
                _shown(inner, where)
        else:
            _shown(block, where)


def _shown(block: Wire, where: str) -> None:
    if block["type"] == "text":
        _must(_is_words(block["text"]), where, "a blank text block")
    else:
        _must(block["type"] == "image", where, f"a block of type {block['type']!r}")
        _must(bool(block["source"]["data"]), where, "an image without bytes")


def _model_blocks(blocks: list[Wire], where: str, seen: set[str]) -> list[str]:
    """The ids of an assistant message's calls."""
    _must("thinking" not in blocks[-1]["type"], where, "a turn that ends in thinking")
    ids = []
    for block in blocks:
        kind = block["type"]
        if kind == "tool_use":
            _must(bool(NAME.fullmatch(block["name"])), where, f"a call of {block['name']!r}")
            _must(isinstance(block["input"], dict), where, "arguments that are no object")
            ids.append(_fresh(block["id"], where, seen))
        elif kind == "text":
            _must(_is_words(block["text"]), where, "a blank text block")
        elif kind == "thinking":
            _must(bool(block["signature"]), where, "thinking without its signature")
        else:
            _must(kind == "redacted_thinking" and bool(block["data"]), where, f"a block of type {kind!r}")
    return ids


def _fresh(identity: str, where: str, seen: set[str]) -> str:
    _must(bool(IDENTITY.fullmatch(identity)), where, f"call id {identity!r} has letters that are refused")
    _must(identity not in seen, where, f"call id {identity!r} was used before")
    seen.add(identity)
    return identity


def _is_words(content: object) -> bool:
    return isinstance(content, str) and bool(content.strip())


def _object(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _must(holds: bool, where: str, what: str) -> None:
    if not holds:
        raise AssertionError(f"{where}: {what}")
