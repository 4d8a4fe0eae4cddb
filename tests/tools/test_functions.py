import asyncio
import dataclasses
import functools
import math
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest

from tests.protocol.polling import until
from torpor.clock import SystemClock
from torpor.core.errors import Refused, Unavailable
from torpor.core.messages import Image, Text, text_of
from torpor.runtime.roster import CallContext
from torpor.stores.memory import MemoryStore
from torpor.tools.functions import BoundTool, FunctionTool, ResultParts, ToolContext, read_result, tool

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20


@pytest.fixture
def side() -> MemoryStore:
    return MemoryStore(SystemClock())


async def ran(function: Callable[..., Any], **arguments: Any) -> ResultParts:
    made = function if isinstance(function, FunctionTool) else tool(function)
    return await made.run(ToolContext(thread="t1", call="c1"), arguments)


async def words(function: Callable[..., Any], **arguments: Any) -> str:
    return text_of((await ran(function, **arguments)).parts)


async def test_a_function_becomes_a_tool_and_stays_callable() -> None:
    @tool
    async def add(a: int, b: int = 2) -> int:
        """Add two numbers.

        Args:
            a: the first
        """
        return a + b

    assert (add.name, add.description, add.repeat, add.inline) == ("add", "Add two numbers.", "unsafe", False)
    assert add.schema["properties"]["a"] == {"type": "integer", "description": "the first"}
    assert add.schema["required"] == ["a"]
    assert await add(1, 1) == 2
    assert await words(add, a=1) == "3"
    spec = add.spec
    assert (spec.name, spec.repeat, spec.timeout, spec.server) == ("add", "unsafe", 600.0, "")
    assert spec.check({"a": 1}) == []
    assert spec.check({"a": "one"}) != []
    assert spec.check({"a": 1, "c": 1}) != []


async def test_settings_replace_what_the_function_says() -> None:
    @tool(name="other", description="Words.", repeat="safe", inline=True)
    def function() -> None:
        """Not this."""

    assert (function.name, function.description, function.timeout) == ("other", "Words.", 5.0)
    assert function.spec.inline
    assert (function.spec.needs_approval, function.spec.destructive) == (False, False)


def test_a_tool_says_whether_a_person_must_approve_it() -> None:
    @tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return str(amount)

    @tool(destructive=True)
    def erase() -> str:
        """Erase."""
        return "gone"

    assert (pay.spec.needs_approval, pay.spec.destructive) == (True, False)
    assert (erase.spec.needs_approval, erase.spec.destructive) == (False, True)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"repeat": "sometimes"}, "repeat must be one of"),
        ({"inline": True}, "safe"),
        ({"inline": True, "repeat": "keyed"}, "safe"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": math.nan}, "timeout"),
        ({"timeout": math.inf}, "timeout"),
        ({"timeout": "300"}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"needs_approval": "yes"}, "needs_approval must be True or False"),
        ({"destructive": 1}, "destructive must be True or False"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        tool(**settings)


def test_functions_that_cannot_be_tools_are_refused() -> None:
    def counting() -> Iterator[int]:
        yield 1

    async def streaming() -> AsyncIterator[int]:
        yield 1

    for function, complaint in ((counting, "generator"), (streaming, "generator"), (lambda: 1, "named")):
        with pytest.raises(TypeError, match=complaint):
            tool(function)
    with pytest.raises(TypeError, match="needs a function"):
        tool("add")  # type: ignore[call-overload]


@dataclasses.dataclass
class Point:
    x: float
    y: float


class Dumped:
    """A value of a library that dumps itself."""

    def model_dump(self, mode: str) -> dict[str, int]:
        assert mode == "json"
        return {"a": 1}


class Shelf(msgspec.Struct):
    name: str
    units: int


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "(no result)"),
        ("plain", "plain"),
        ("", ""),
        ("NaN and Infinity", "NaN and Infinity"),
        ('{"score": NaN}', '{"score": NaN}'),
        ("a\ud800b", "a\ufffdb"),
        (7, "7"),
        (True, "true"),
        (1.5, "1.5"),
        (math.nan, "null"),
        ({"score": math.nan, "max": math.inf}, '{"score":null,"max":null}'),
        ({"big": 2**70}, '{"big":1180591620717411303424}'),
        (Dumped(), '{"a":1}'),
        ([math.inf, "\ud800", (1.5,)], '[null, "\ufffd", [1.5]]'),
        ({"bad": "\ud800", "n": math.nan}, '{"bad": "\ufffd", "n": null}'),
        ([1, "a", None], '[1,"a",null]'),
        ((1, 2), "[1,2]"),
        ([], "[]"),
        (Point(1, 2.5), '{"x":1,"y":2.5}'),
        (Shelf("M6", 3), '{"name":"M6","units":3}'),
        ([Shelf("M6", 3)], '[{"name":"M6","units":3}]'),
        (datetime(2026, 11, 29, tzinfo=UTC), '"2026-11-29T00:00:00Z"'),
        (Decimal("1.10"), '"1.10"'),
        (PurePosixPath("/a/b"), '"/a/b"'),
        ({1: "a"}, '{"1":"a"}'),
        (range(3), "[0,1,2]"),
        (b"caf\xc3\xa9", "café"),
        (b"\xff\xfe\x00", "[3 bytes that are no text and no image left out]"),
    ],
)
async def test_what_a_function_returns_is_shown(value: object, shown: str) -> None:
    async def give() -> object:
        return value

    result = await ran(give)
    assert (text_of(result.parts), result.is_error) == (shown, False)


async def test_parts_and_images_are_shown_as_they_are() -> None:
    async def give() -> object:
        return [Text("before"), PNG, "after"]

    result = await ran(give)
    before, image, after = result.parts
    assert (before, after) == (Text("before"), Text("after"))
    assert isinstance(image, Image)
    assert image.media_type == "image/png"


def looped() -> list[object]:
    one: list[object] = []
    one.append(one)
    return one


@pytest.mark.parametrize("value", [object(), {"a": object()}, {(1, 2): 3}, looped()])
async def test_what_has_no_json_form_is_an_error_that_says_so(value: object) -> None:
    async def give() -> object:
        return value

    result = await ran(give)
    assert result.is_error
    assert text_of(result.parts).startswith("Error: give ran, but what it returned cannot be shown: ")
    assert " at 0x" not in text_of(result.parts)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("too small"), "Error: ValueError: too small"),
        (KeyError("k"), "Error: KeyError: 'k'"),
        (Exception(), "Error: Exception"),
        (StopIteration(3), "Error: "),
        (SystemExit(2), "Error: SystemExit: 2"),
        (TimeoutError("its own"), "Error: TimeoutError: its own"),
        (Refused("Give a date."), "Error: Give a date."),
        (Unavailable("busy"), "Error: Unavailable: busy"),
        (asyncio.CancelledError("inner"), "Error: CancelledError"),
        (Unspeakable(), "Error: Unspeakable"),
        (ValueError("\ud800"), "Error: ValueError: \ufffd"),
        (ValueError("x" * 10_000), "Error: ValueError: " + "x" * 2_000),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_failure_is_a_result_without_a_traceback(
    error: BaseException, shown: str, is_async: bool
) -> None:
    def fail() -> None:
        raise error

    async def fail_later() -> None:
        raise error

    result = await ran(fail_later if is_async else fail)
    assert result.is_error
    assert text_of(result.parts).startswith(shown)
    assert "Traceback" not in text_of(result.parts)
    assert __file__ not in text_of(result.parts)


async def test_arguments_that_do_not_fit_are_a_result() -> None:
    async def add(a: int) -> int:
        return a

    for arguments in ({"a": "one"}, {}, {"a": 1, "b": 2}, "[]", "{", '{"a":"x"}'):
        result = await tool(add).run(ToolContext(), arguments)
        assert result.is_error
        assert text_of(result.parts).startswith("Error: the arguments do not fit: ")


async def test_the_context_is_filled_in_and_not_offered(side: MemoryStore) -> None:
    seen: list[ToolContext] = []

    @tool
    async def look(x: int, context: ToolContext) -> None:
        seen.append(context)

    assert list(look.schema["properties"]) == ["x"]
    facts = CallContext("t1", "c1-0", "adder", "u-19", '{"plan":"gold"}', 2)
    for _ in range(2):
        await BoundTool(look, side).run(facts, {"x": 1})
    assert seen[0] == ToolContext("t1", "c1-0", "t1/c1-0", "adder", "u-19", {"plan": "gold"}, 2)
    assert seen[0].idempotency_key == seen[1].idempotency_key


async def test_a_sync_function_runs_beside_the_event_loop_in_a_thread_that_ends() -> None:
    release, started = threading.Event(), threading.Event()

    def wait() -> str:
        started.set()
        assert release.wait(10)
        return threading.current_thread().name

    before = threading.active_count()
    task = asyncio.create_task(words(wait))
    await until(started.is_set)
    release.set()
    assert await task == "tool wait"
    await until(lambda: threading.active_count() <= before)


async def test_many_sync_functions_run_side_by_side() -> None:
    barrier = threading.Barrier(20)

    def meet() -> int:
        return barrier.wait(10)

    shown = await asyncio.gather(*(words(meet) for _ in range(20)))
    assert sorted(map(int, shown)) == list(range(20))


async def test_a_sync_function_may_give_something_to_await() -> None:
    async def later(x: int) -> int:
        return x

    def give() -> object:
        return later(7)

    assert await words(give) == "7"


async def test_a_partial_method_or_callable_is_run() -> None:
    class Shop:
        async def stock(self, part: str) -> str:
            return f"{part}: 3"

    assert await words(Shop().stock, part="M6") == "M6: 3"
    wrapped = functools.wraps(Shop().stock)(functools.partial(Shop().stock))
    assert await words(wrapped, part="M8") == "M8: 3"


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_function_that_takes_too_long_is_settled_as_timed_out(is_async: bool) -> None:
    release = threading.Event()

    async def hang() -> None:
        await asyncio.Event().wait()

    def block() -> None:
        release.wait(10)

    made = tool(timeout=0.02)(hang if is_async else block)
    started = time.monotonic()
    result = await ran(made)
    release.set()
    assert (result.is_error, result.cause) == (True, "timeout")
    assert "did not finish within 0.02 seconds" in text_of(result.parts)
    assert time.monotonic() - started < 2


async def test_giving_a_call_up_is_raised_not_shown() -> None:
    entered = asyncio.Event()

    async def hang() -> None:
        entered.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(ran(hang))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_result_of_fifty_megabytes_is_bounded_and_can_be_read_on(side: MemoryStore) -> None:
    @tool
    async def flood() -> str:
        return "abcde" * 10_000_000

    facts = CallContext("t1", "c1")
    result = await BoundTool(flood, side).run(facts, {})
    assert len(text_of(result.parts)) == 16_000
    assert result.size == 50_000_000
    reader = BoundTool(read_result(side, side), side)
    page = await reader.run(facts, {"handle": result.handle, "start": 16_000, "length": 10})
    assert text_of(page.parts) == "abcdeabcde\n[characters 16000 to 16010; more follows: start=16010]"
    last = await reader.run(facts, {"handle": result.handle, "start": 49_999_998})
    assert text_of(last.parts) == "de\n[characters 49999998 to 50000000; this is the end]"


async def test_reading_on_counts_characters_and_is_bounded(side: MemoryStore) -> None:
    @tool
    async def flood() -> str:
        return "".join(chr(0x100 + number % 500) for number in range(40_000))

    facts = CallContext("t1", "c1")
    result = await BoundTool(flood, side).run(facts, {})
    reader, whole, start = BoundTool(read_result(side, side), side), "", 0
    while start < result.size:
        page = await reader.run(facts, {"handle": result.handle, "start": start, "length": 1_000_000})
        text, _, trailer = text_of(page.parts).rpartition("\n[")
        assert page.handle == ""
        assert len(text) <= 12_000
        whole += text
        start += len(text)
    assert trailer.endswith("this is the end]")
    assert whole == flood_text()


def flood_text() -> str:
    return "".join(chr(0x100 + number % 500) for number in range(40_000))


async def test_a_thread_reads_only_its_own_results(side: MemoryStore) -> None:
    @tool
    async def flood() -> str:
        return "x" * 20_000

    handle = (await BoundTool(flood, side).run(CallContext("t1", "c1"), {})).handle
    reader = BoundTool(read_result(side, side), side)
    for facts, asked in (
        (CallContext("t2", "c1"), handle),
        (CallContext("t1", "c1"), "nothing"),
        (CallContext("t1", "c1"), ""),
        (CallContext("t1", "c1"), "../../etc/passwd"),
    ):
        result = await reader.run(facts, {"handle": asked})
        assert result.is_error
        assert "no stored result" in text_of(result.parts)
    before = await reader.run(CallContext("t1", "c1"), {"handle": handle, "start": -5, "length": -5})
    assert text_of(before.parts).startswith("x\n[characters 0 to 1;")


def test_read_result_is_safe_and_runs_within_the_slice(side: MemoryStore) -> None:
    spec = read_result(side, side).spec
    assert (spec.name, spec.repeat, spec.inline) == ("read_result", "safe", True)
    assert spec.schema["required"] == ["handle"]


def test_defining_tools_loads_no_http() -> None:
    code = "import sys; from torpor.tools import tool, RapServer; print({'aiohttp'} & set(sys.modules))"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert shown.stdout.strip() == "set()"
