"""What MCP servers ask, as people are asked it, and what people say, as servers are told it."""

import asyncio
from typing import Any

import msgspec
import pytest

from torpor.core.errors import Conflict, Refused
from torpor.core.request import InputItem, TurnItem
from torpor.core.signals import AnySignal
from torpor.runtime.roster import CallContext
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import START, FakeClock
from torpor.tools.mcp.asking import Asked, Asking, asked_of, name_of, number_of
from torpor.tools.mcp.records import Question, Record, Records, Run, Sampled, said
from torpor.tools.mcp.sampling import _items
from torpor.tools.mcp.tasks import Look, look_of, pause


def a_run(**fields: Any) -> Run:
    clock = FakeClock()
    context = CallContext("t", "c", name="ask", server="mcp:x", at=START)
    return Run(context, Record("mcp:x", **fields), Records(MemoryStore(clock)), clock)


def asked(schema: object, **more: Any) -> Asked | None:
    return asked_of(a_run(), 3, "k", {"message": "Which?", "requestedSchema": schema, **more})


def one_of(*properties: tuple[str, dict[str, Any]], required: bool = True) -> dict[str, Any]:
    found = dict(properties)
    return {"type": "object", "properties": found, "required": list(found) if required else []}


ENUM = {"type": "string", "enum": ["r", "g"]}


@pytest.mark.parametrize(
    ("schema", "choices", "values"),
    [
        (one_of(("colour", ENUM)), ("r", "g", "None of these"), ({"colour": "r"}, {"colour": "g"})),
        (
            one_of(("colour", {**ENUM, "enumNames": ["Red", "Green"]})),
            ("Red", "Green", "None of these"),
            ({"colour": "r"}, {"colour": "g"}),
        ),
        (
            one_of(("n", {"oneOf": [{"const": 1, "title": "One"}, {"const": 2}]})),
            ("One", "2", "None of these"),
            ({"n": 1}, {"n": 2}),
        ),
        (one_of(("ok", {"type": "boolean"})), ("Yes", "No", "None of these"), ({"ok": True}, {"ok": False})),
        (
            one_of(("a", {"enum": ["None of these", "x"]})),
            ("None of these", "x", "No answer"),
            ({"a": "None of these"}, {"a": "x"}),
        ),
        ({"type": "object", "properties": {}}, ("Yes", "No"), ({},)),
    ],
)
def test_few_answers_are_a_choice(schema: Any, choices: tuple[str, ...], values: tuple[Any, ...]) -> None:
    found = asked(schema)
    assert found is not None
    assert (found.signal.kind, found.signal.choices, found.question.values) == ("choice", choices, values)
    assert found.signal.default == str(len(choices) - 1)
    assert said(found.question, "0") == {"action": "accept", "content": values[0]}
    assert said(found.question, found.signal.default) == {"action": "decline"}


@pytest.mark.parametrize(
    "schema",
    [
        one_of(("colour", ENUM), required=False),
        one_of(("a", ENUM), ("b", ENUM)),
        one_of(("a", {"enum": ["same", "same"]})),
        one_of(("a", {"enum": [str(number) for number in range(40)]})),
        one_of(("a", {"enum": ["only"]})),
        one_of(("a", {"type": "string"})),
    ],
)
def test_all_else_is_a_form(schema: Any) -> None:
    found = asked(schema)
    assert found is not None
    assert (found.signal.kind, found.signal.choices) == ("form", ())
    assert msgspec.json.decode(found.signal.schema) == schema


@pytest.mark.parametrize(
    "request_",
    [
        {"message": "?"},
        {"requestedSchema": {"type": "no such"}},
        {"requestedSchema": one_of(("a", {"type": "string", "description": "x" * 40_000}))},
        {"mode": "url", "url": "file:///etc/passwd"},
        {"mode": "url", "url": "javascript:x"},
        {"mode": "url", "url": "https://a.test/\n"},
        {"mode": "url"},
    ],
)
def test_what_cannot_be_put_to_people(request_: dict[str, Any]) -> None:
    assert asked_of(a_run(), 1, "", request_) is None


def test_a_url_stays_out_of_the_signal() -> None:
    found = asked_of(a_run(), 1, "", {"mode": "url", "url": "https://a.test/x?y", "message": "Go."})
    assert found is not None
    assert (found.url, found.signal.kind, found.signal.told) == ("https://a.test/x?y", "authorization", True)
    assert "a.test" not in repr(found.signal)


def test_names_of_questions() -> None:
    assert number_of(name_of("c", 12)) == 12
    assert [number_of(name) for name in ("http://x/choices", "", "c/ask/")] == [0, 0, 0]


@pytest.mark.parametrize(
    ("kind", "value", "answer"),
    [
        ("form", '{"a": 1}', {"action": "accept", "content": {"a": 1}}),
        ("form", "decline", {"action": "decline"}),
        ("form", "dismiss", {"action": "cancel"}),
        ("authorization", "done", {"action": "accept"}),
        ("authorization", "dismiss", {"action": "cancel"}),
        ("choice", "7", {"action": "decline"}),
    ],
)
def test_what_people_say(kind: str, value: str, answer: dict[str, Any]) -> None:
    assert said(Question(1, kind, values=({},)), value) == answer


async def test_time_that_people_take_counts_for_no_limit() -> None:
    run = a_run(started=START, paused=30.0)
    run.clock.advance(100)  # type: ignore[attr-defined]
    assert run.elapsed == 70.0


async def test_records_last_and_are_forgotten_with_their_answers() -> None:
    run = a_run()
    await run.save(
        phase="asked", asked=2, questions=(Question(1, "form"), Question(2, "choice", values=(1,)))
    )
    await run.records.answer("t", "c", 2, "0")
    assert await run.records.get("t", "c") == run.record
    assert (await run.answered(1), await run.answered(2)) == (None, "0")
    await run.records.forget("t", "c")
    assert await run.records.get("t", "c") is None
    assert (await run.answered(1), await run.answered(2)) == (None, None)


async def test_a_record_is_written_again_daily() -> None:
    run = a_run()
    await run.save(phase="task")
    run.clock.advance(86_000)  # type: ignore[attr-defined]
    await run.touch()
    assert run.record.kept == START
    run.clock.advance(1_000)  # type: ignore[attr-defined]
    await run.touch()
    assert run.record.kept == START + 87_000


def test_a_record_of_a_later_release_is_read() -> None:
    assert msgspec.json.decode(b'{"server":"mcp:x","phase":"task","more":1}', type=Record).phase == "task"


@pytest.mark.parametrize(
    ("given", "look"),
    [
        ({"status": "working", "pollInterval": 2500}, Look("working", poll=2.5)),
        (
            {"status": "working", "pollIntervalMs": 100, "statusMessage": " at  it "},
            Look("working", "at it", 0.1),
        ),
        ({"status": "failed", "error": {"message": "no"}}, Look("failed", error="no")),
        ({"status": "completed", "result": {"content": []}}, Look("completed", result={"content": []})),
        ({"status": 3, "pollInterval": True, "statusMessage": 4, "result": 5, "error": 6}, Look("3")),
        ({"status": "working", "pollInterval": float("inf")}, Look("working")),
    ],
)
def test_what_is_said_of_tasks(given: dict[str, Any], look: Look) -> None:
    assert look_of(given) == look
    assert look.is_over == (look.status in ("failed", "completed"))


def test_tasks_are_looked_at_neither_too_often_nor_too_seldom() -> None:
    assert [pause(seconds) for seconds in (0.0, 3.0, 1e9)] == [0.5, 3.0, 60.0]


def test_messages_of_sampling() -> None:
    words = {"type": "text", "text": "Hi"}
    items = _items(
        [
            {"role": "user", "content": words},
            {"role": "assistant", "content": [words, words]},
            {"role": "user", "content": {"type": "image", "data": "eA==", "mimeType": "image/png"}},
        ],
        START,
    )
    assert [type(item) for item in items] == [InputItem, TurnItem, InputItem]


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        ["x"],
        [{"role": "user", "content": {"type": "audio"}}],
        [{"role": "assistant", "content": {"type": "text", "text": "x"}}],
        [{"role": "user", "content": {"type": "text", "text": "x" * 500_000}}],
        [{"role": "user", "content": {"type": "text", "text": "x"}}] * 300,
    ],
)
def test_messages_that_no_model_is_asked(messages: Any) -> None:
    with pytest.raises(Refused):
        _items(messages, START)


async def test_an_answer_that_another_process_took_is_found() -> None:
    """The server waits here; the choice was told elsewhere."""
    run = a_run()
    posted: list[AnySignal] = []

    async def post(signal: AnySignal) -> bool:
        posted.append(signal)
        return True

    store = MemoryStore(FakeClock())
    asking = Asking(store, store, post)
    waiting = asyncio.create_task(asking.live(run, {"message": "?", "requestedSchema": one_of(("a", ENUM))}))
    while not posted:
        await asyncio.sleep(0)
    await run.records.answer("t", "c", 1, "1")
    assert await waiting == {"action": "accept", "content": {"a": "g"}}
    assert run.record.questions == ()


async def test_what_servers_had_of_the_model_counts_by_exchange() -> None:
    records = a_run().records
    assert await records.sampled("t", 5.0) == Sampled(5.0)
    await records.sample("t", 5.0, 40)
    await records.sample("t", 5.0, 2)
    assert await records.sampled("t", 5.0) == Sampled(5.0, 42, 2)
    assert await records.sampled("t", 6.0) == Sampled(6.0)
    assert await records.sampled("other", 5.0) == Sampled(5.0)


async def test_who_was_away_for_long_does_not_send_what_another_process_sends() -> None:
    """A paused process wakes up after its call was taken over."""
    slow = a_run()
    quick = Run(slow.facts, slow.record, slow.records, slow.clock)
    await slow.make_sure()
    await quick.save(phase="sent", sent=1)
    with pytest.raises(Conflict):
        await slow.make_sure()
    await quick.make_sure()
    await slow.records.forget("t", "c")
    with pytest.raises(Conflict):
        await quick.make_sure()
