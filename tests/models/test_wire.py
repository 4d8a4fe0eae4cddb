"""What is sent: each item as whole messages, in both wire formats."""

import json
from typing import Any

import msgspec
import pytest

from tests.models.events import anthropic_events, openai_events
from tests.models.replay import Reply, replaying
from torpor.core.chunks import Stop
from torpor.core.errors import ModelRefused, Refused
from torpor.core.messages import Call, File, Image, Reasoning, Text
from torpor.core.request import (
    AnyItem,
    Attempt,
    InjectedItem,
    InputItem,
    NoticeItem,
    Request,
    ResultsItem,
    ResultView,
    SummaryItem,
    Tool,
    TurnItem,
)
from torpor.models import Anthropic, OpenAI
from torpor.testing.pairing import check_anthropic, check_openai

pytestmark = pytest.mark.usefixtures("no_keys")

PICTURE = Image(data="aGVsbG8=", media_type="image/png")
ASK = InputItem(1_790_000_000.0, (Text("What is in a?"),))
STAMP = "[2026-09-21 14:13:20 UTC]"
READ = Call("c1", "read", '{"path": "a"}')
SIGNED = Reasoning("Hm", "c2ln", "anthropic")
ADD = Tool("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}})
NEWS = InjectedItem(
    "n1", "watch", "c0", '{"dir": "/x"}', (Text("it\nchanged"),), 1_790_000_000.0, notes=("It was the last.",)
)


def request(*items: AnyItem, **more: Any) -> Request:
    return Request("tester", "any", "Be brief.", (), items, **more)


def results(*views: ResultView) -> ResultsItem:
    return ResultsItem(views)


def openai_messages(*items: AnyItem, **options: Any) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = OpenAI("m", **options).wire(request(*items))["messages"]
    check_openai(messages)
    return messages[1:]


def anthropic_messages(*items: AnyItem, **options: Any) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = Anthropic("m", **options).wire(request(*items))["messages"]
    check_anthropic(messages)
    return messages


# ------------------------------------------------------------------------------ OpenAI


def test_openai_body() -> None:
    asked = msgspec.structs.replace(request(ASK, settings={"temperature": 0, "max_tokens": 9}), tools=(ADD,))
    assert OpenAI("gpt-5-mini").wire(asked) == {
        "model": "gpt-5-mini",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "max_completion_tokens": 9,
        "tools": [
            {
                "type": "function",
                "function": {"name": "add", "description": "Add two numbers.", "parameters": ADD.schema},
            }
        ],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": f"{STAMP}\nWhat is in a?"},
        ],
    }


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (None, "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("http://127.0.0.1:11434/v1", "max_tokens"),
        ("https://notopenai.com/v1", "max_tokens"),
    ],
)
def test_openai_bound_on_answers_has_the_name_that_the_server_knows(url: str | None, name: str) -> None:
    body = OpenAI("m", base_url=url).wire(request(ASK, settings={"max_tokens": 9}))
    assert {key: value for key, value in body.items() if key.startswith("max")} == {name: 9}


def test_openai_call_and_results() -> None:
    turn = TurnItem((Reasoning("Hm"), Text("I look."), READ, Call("c2", "now", "")))
    answers = results(
        ResultView("c1", "read", (Text("A"),)), ResultView("c2", "now", (Text("no"),), is_error=True)
    )
    assert openai_messages(ASK, turn, answers)[1:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}},
                {"id": "c2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "A"},
        {"role": "tool", "tool_call_id": "c2", "content": "[error]\nno"},
    ]


def test_openai_calls_with_an_empty_text_for_servers_that_want_one() -> None:
    answer = results(ResultView("c1", "read", (Text("A"),)))
    items = (ASK, TurnItem((READ,)), answer, NEWS, TurnItem((Text(" "),)), TurnItem((Text("Hi"),)))
    body = OpenAI("m", empty_content=True).wire(request(*items))
    models_own = [message for message in body["messages"] if message["role"] == "assistant"]
    assert [message["content"] for message in models_own] == ["", "", "Hi"]


def test_openai_images_of_a_person_and_of_results() -> None:
    turn = TurnItem((READ, Call("c2", "shot")))
    views = results(
        ResultView("c1", "read", (Text("see"), PICTURE)), ResultView("c2", "shot", (PICTURE, PICTURE))
    )
    asked, _, first, second, shown = openai_messages(InputItem(0.0, (PICTURE, Text("this?"))), turn, views)
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
    assert asked["content"] == [
        {"type": "text", "text": "[1970-01-01 00:00:00 UTC]"},
        url,
        {"type": "text", "text": "this?"},
    ]
    assert first["content"] == "see\n[image image/png: see the message after the results]"
    assert second["content"].count("see the message") == 2
    assert shown == {
        "role": "user",
        "content": [
            {"type": "text", "text": "[images of read, call c1]"},
            url,
            {"type": "text", "text": "[images of shot, call c2]"},
            url,
            url,
        ],
    }


def test_openai_news_is_the_reserved_call_and_its_result() -> None:
    call, result = openai_messages(ASK, NEWS)[1:]
    function = call["tool_calls"][0]["function"]
    assert function["name"] == "receive_event__injected"
    assert json.loads(function["arguments"]) == {
        "original_tool_name": "watch",
        "original_tool_call_id": "c0",
        "original_args": {"dir": "/x"},
    }
    assert result["tool_call_id"] == "n1"
    assert result["content"] == f"{STAMP} It was the last.\nit\nchanged"


def test_openai_news_with_an_image() -> None:
    pictured = msgspec.structs.replace(NEWS, parts=(PICTURE,))
    call, result, shown = openai_messages(ASK, pictured)[1:]
    assert "image image/png" in result["content"]
    assert shown["content"][1]["type"] == "image_url"
    assert "content" not in call


def test_openai_opaque_data_goes_home_only() -> None:
    """Case WIR-19."""
    opaque = json.dumps({"origin": "one:8000", "extra_content": {"sig": 1}})
    turn = TurnItem((Call("c1", "f", opaque=opaque),))
    answers = results(ResultView("c1", "f", (Text("A"),)))
    home = openai_messages(ASK, turn, answers, base_url="http://me:secret@one:8000/v1")[1]["tool_calls"][0]
    away = openai_messages(ASK, turn, answers, base_url="http://two/v1")[1]["tool_calls"][0]
    assert home["extra_content"] == {"sig": 1}
    assert "extra_content" not in away


def test_openai_without_images_says_so() -> None:
    """Case E31: a placeholder in the request, only there."""
    asked = openai_messages(InputItem(0.0, (PICTURE,)), images=False)[0]
    assert asked["content"].endswith("[image image/png left out: this model takes no images]")


# --------------------------------------------------------------------------- Anthropic


def test_anthropic_body() -> None:
    asked = msgspec.structs.replace(request(ASK, settings={"temperature": 0, "max_tokens": 9}), tools=(ADD,))
    mark = {"type": "ephemeral"}
    assert Anthropic("claude-sonnet-5").wire(asked) == {
        "model": "claude-sonnet-5",
        "max_tokens": 9,
        "stream": True,
        "cache_control": mark,
        "temperature": 0,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
        "tools": [{"name": "add", "description": "Add two numbers.", "input_schema": ADD.schema}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": f"{STAMP}\nWhat is in a?"}]}],
    }


def test_anthropic_breakpoint_after_tools_without_instructions() -> None:
    asked = Request("t", "any", "", (ADD, ADD), (ASK,))
    body = Anthropic("m", cache="1h").wire(asked)
    assert "system" not in body
    assert "cache_control" not in body["tools"][0]
    assert body["tools"][1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_anthropic_without_caching() -> None:
    assert b"cache_control" not in Anthropic("m", cache=False).wire_bytes(request(ASK))


def test_anthropic_turn_keeps_its_order() -> None:
    """Signatures cover what comes before them: interleaved thinking stays where it was."""
    redacted = Reasoning("", "ZW5j", "anthropic:redacted")
    foreign = (Reasoning("other", "sig", "scripted"), Reasoning("unsigned", "", "anthropic"))
    turn = TurnItem((SIGNED, Text("I look."), *foreign, READ, redacted, Call("c2", "now"), SIGNED))
    answers = results(ResultView("c1", "read", (Text("A"),)), ResultView("c2", "now", (Text("B"),)))
    assert anthropic_messages(ASK, turn, answers)[1]["content"] == [
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
        {"type": "redacted_thinking", "data": "ZW5j"},
        {"type": "tool_use", "id": "c2", "name": "now", "input": {}},
    ]


def test_anthropic_results() -> None:
    answers = results(
        ResultView("c1", "read", (Text("A"), PICTURE)), ResultView("c2", "now", (Text(" "),), is_error=True)
    )
    assert anthropic_messages(ASK, TurnItem((READ, Call("c2", "now"))), answers)[2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [
                {"type": "text", "text": "A"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="},
                },
            ],
        },
        {
            "type": "tool_result",
            "tool_use_id": "c2",
            "content": [{"type": "text", "text": "(no output)"}],
            "is_error": True,
        },
    ]


def test_anthropic_news_as_a_call() -> None:
    call, result = anthropic_messages(ASK, NEWS)[1:]
    assert call["content"][0]["input"]["original_tool_name"] == "watch"
    assert result["content"][0]["content"] == [
        {"type": "text", "text": f"{STAMP} It was the last.\nit\nchanged"}
    ]


@pytest.mark.parametrize("thinking", [2048, "adaptive"])
def test_anthropic_news_as_marked_text_when_thinking(thinking: Any) -> None:
    (news,) = anthropic_messages(ASK, NEWS, thinking=thinking)[1:]
    first, second, *quoted = news["content"][0]["text"].split("\n")
    assert first.startswith('[receive_event__injected {"original_tool_name":"watch"')
    assert second == f"{STAMP} It was the last."
    assert quoted == ["> it", "> changed"]


def test_anthropic_marked_text_with_an_image_only() -> None:
    pictured = msgspec.structs.replace(NEWS, parts=(PICTURE,))
    (news,) = anthropic_messages(ASK, pictured, thinking="adaptive")[1:]
    assert [block["type"] for block in news["content"]] == ["text", "image"]


# ---------------------------------------------------------------------------- Thinking


def thought(*items: AnyItem, **options: Any) -> object:
    body = Anthropic("claude-opus-4-5", **options).wire(request(*items))
    check_anthropic(body["messages"], thinking="budget_tokens" in body.get("thinking", {}))
    return body.get("thinking")


BUDGET = {"type": "enabled", "budget_tokens": 2048}
ANSWER = results(ResultView("c1", "read", (Text("A"),)))


@pytest.mark.parametrize("parts", [(READ,), (Text("I look."), READ), (Reasoning("x", "y", "openai"), READ)])
def test_a_stored_call_without_thinking_turns_it_off(parts: Any) -> None:
    """Case WIR-05."""
    assert thought(ASK, TurnItem(parts), ANSWER, thinking=2048) is None


def test_a_stored_call_with_thinking_keeps_it_on() -> None:
    assert thought(ASK, TurnItem((SIGNED, READ)), ANSWER, thinking=2048) == BUDGET


def test_thinking_comes_back_once_the_calls_are_behind() -> None:
    assert thought(ASK, TurnItem((READ,)), ANSWER, TurnItem((Text("A."),)), ASK, thinking=2048) == BUDGET


def test_adaptive_thinking_needs_no_thought_before_a_call() -> None:
    assert thought(ASK, TurnItem((READ,)), ANSWER, thinking="adaptive") == {"type": "adaptive"}


@pytest.mark.parametrize("given", [2048, BUDGET])
def test_settings_may_say_how_to_think(given: object) -> None:
    asked = request(ASK, NEWS, settings={"thinking": given})
    body = Anthropic("claude-opus-4-5").wire(asked)
    assert body["thinking"] == BUDGET
    assert len(body["messages"]) == 2


def test_the_room_for_answers() -> None:
    def room(name: str, **options: Any) -> object:
        return Anthropic(name, **options).wire(request(ASK))["max_tokens"]

    assert room("claude-3-haiku-20240307") == 4096
    assert room("claude-3-5-sonnet-latest") == 8192
    assert room("claude-sonnet-5") == 32_000
    assert room("smollm") == 8192
    assert room("smollm", max_tokens=5) == 5
    assert room("claude-opus-4-5", thinking=10_000) == 42_000
    with pytest.raises(Refused, match="no room"):
        Anthropic("claude-opus-4-5", thinking=10_000, max_tokens=10_000)


@pytest.mark.parametrize("thinking", [1023, True, "much", -5])
def test_a_thinking_that_is_none(thinking: Any) -> None:
    with pytest.raises(Refused, match="1024"):
        Anthropic("m", thinking=thinking)


# -------------------------------------------------------------------------------- Both


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_blank_text_beside_a_call_is_left_out(text: str) -> None:
    """Case WIR-07."""
    turn = TurnItem((Text(text), READ))
    empty = results(ResultView("c1", "read", (Text(text),)))
    _, call, result = openai_messages(ASK, turn, empty)
    assert "content" not in call
    assert result["content"] == "(no output)"
    _, call, result = anthropic_messages(ASK, turn, empty)
    assert [block["type"] for block in call["content"]] == ["tool_use"]
    assert result["content"][0]["content"] == [{"type": "text", "text": "(no output)"}]


def test_a_turn_with_nothing_to_show_is_no_message() -> None:
    turns = [TurnItem(()), TurnItem((Text(" "),)), TurnItem((SIGNED,)), TurnItem((SIGNED, Text("")))]
    assert len(openai_messages(ASK, *turns)) == 1
    assert len(anthropic_messages(ASK, *turns)) == 1


def test_a_summary_is_said_and_marked_as_one() -> None:
    item = SummaryItem(0.0, "It went well.", "Title: T")
    assert openai_messages(item) == [{"role": "user", "content": item.text}]
    [block] = anthropic_messages(item)[0]["content"]
    assert block == {"type": "text", "text": item.text}
    assert item.text.startswith("[1970-01-01 00:00:00 UTC] [Summary, made by the runtime")


def test_a_notice_is_said() -> None:
    assert openai_messages(NoticeItem("Set aside.")) == [{"role": "user", "content": "Set aside."}]
    assert anthropic_messages(NoticeItem("Set aside."))[0]["content"][0]["text"] == "Set aside."


@pytest.mark.parametrize(
    "arguments", ['{"a":', "[1]", '"x"', '{"a": NaN}', '{"a": 1e999}', "null", "nonsense"]
)
def test_arguments_that_are_no_object_are_shown_inside_one(arguments: str) -> None:
    turn = TurnItem((Call("c1", "f", arguments, invalid=True),))
    answer = results(ResultView("c1", "f", (Text("no"),), is_error=True))
    sent = openai_messages(ASK, turn, answer)[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"invalid_arguments": arguments}
    assert anthropic_messages(ASK, turn, answer)[1]["content"][0]["input"] == {"invalid_arguments": arguments}


@pytest.mark.parametrize("name", ["bad name", "", "ä", "x" * 300, "a.b/c"])
def test_names_that_a_model_made_up_are_sent_in_letters_that_pass(name: str) -> None:
    turn = TurnItem((Call("c1", name),))
    answer = results(ResultView("c1", name, (Text("unknown tool"),), is_error=True))
    openai_messages(ASK, turn, answer)
    anthropic_messages(ASK, turn, answer)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (Image("", "image/png", handle="h"), "kept elsewhere"),
        (Image("aGVsbG8=", "image/tiff"), "not accepted"),
        (Image("A" * 400, "image/png"), "larger than 200 bytes"),
    ],
)
def test_images_that_cannot_be_sent_are_told(image: Image, why: str) -> None:
    """Case WIR-17."""
    asked = InputItem(0.0, (image,))
    assert why in openai_messages(asked, image_bytes=200)[0]["content"]
    assert why in anthropic_messages(asked, image_bytes=200)[0]["content"][0]["text"]


def test_a_file_is_its_name_and_its_text() -> None:
    asked = InputItem(0.0, (File("a.txt", "text/plain", text="Hello"), Text("?")))
    shown = "[1970-01-01 00:00:00 UTC]\n[file a.txt (text/plain)]\nHello\n?"
    assert openai_messages(asked)[0]["content"] == shown
    assert anthropic_messages(asked)[0]["content"] == [{"type": "text", "text": shown}]


@pytest.mark.parametrize("model", [OpenAI("m"), Anthropic("m")])
def test_settings_may_not_replace_what_is_made_here(model: OpenAI | Anthropic) -> None:
    with pytest.raises(ModelRefused, match="messages, stream"):
        model.wire(request(ASK, settings={"stream": False, "messages": []}))


@pytest.mark.parametrize("model", [OpenAI("m"), Anthropic("m")])
def test_text_that_is_no_unicode_still_leaves(model: OpenAI | Anthropic) -> None:
    """Case WIR-08: the body is UTF-8 JSON whatever it is given."""
    body = model.wire_bytes(request(InputItem(0.0, (Text("a\ud83d"),))))
    assert "a?" in body.decode()
    json.loads(body)


@pytest.mark.parametrize("model", [OpenAI("m"), Anthropic("m")])
def test_wire_leaves_the_request_alone(model: OpenAI | Anthropic) -> None:
    asked = msgspec.structs.replace(request(ASK, NEWS, settings={"max_tokens": 5}), tools=(ADD,))
    before = msgspec.msgpack.encode(asked)
    assert model.wire_bytes(asked) == model.wire_bytes(asked)
    assert msgspec.msgpack.encode(asked) == before


@pytest.mark.parametrize("provider", [OpenAI, Anthropic])
async def test_what_leaves_is_what_wire_says(provider: type[OpenAI | Anthropic]) -> None:
    events = openai_events if provider is OpenAI else anthropic_events
    async with replaying(Reply(events((), Stop()))) as replay:
        model = provider("m", base_url=replay.url, api_key="k1", headers={"x-team": "blue"})
        asked = request(ASK, TurnItem((READ,)), ANSWER, NEWS)
        for _ in range(2):
            _ = [chunk async for chunk in model.stream(asked, Attempt("t", 0))]
        await model.close()
    seen = replay.seen[1]
    assert seen.body == model.wire_bytes(asked)
    assert seen.path == ("/chat/completions" if provider is OpenAI else "/v1/messages")
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["x-team"] == "blue"
    assert "k1" in (seen.headers.get("authorization", "") + seen.headers.get("x-api-key", ""))
