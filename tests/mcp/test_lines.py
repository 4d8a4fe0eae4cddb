"""Lines of JSON-RPC, and what else servers write (MCP-01)."""

import json
import time
from typing import Any

import pytest
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCResponse

from torpor.tools.mcp.faults import TooLarge
from torpor.tools.mcp.lines import EDGE, MOST_VALUES, Lines, Noise, Overlong, read_line

ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {"ok": True}}


def cut(lines: Lines, body: bytes, size: int) -> list[bytes | Overlong]:
    return [line for start in range(0, len(body), size) for line in lines.feed(body[start : start + size])]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_lines_are_cut_wherever_the_chunks_end(size: int) -> None:
    lines = Lines(100)
    assert cut(lines, b"one\n\ntwo\r\nthree", size) == [b"one", b"", b"two\r"]
    assert lines.end() == b"three"
    assert lines.end() == b""


@pytest.mark.parametrize("size", [7, 4_096, 1_000_000])
@pytest.mark.parametrize("id", [7, "call-7"])
@pytest.mark.parametrize("first", [True, False])
def test_of_a_line_that_is_too_long_the_id_is_known(size: int, id: Any, first: bool) -> None:
    result = {"content": [{"type": "text", "text": "x" * 30_000, "id": 99}]}
    message = (
        {"jsonrpc": "2.0", "id": id, "result": result}
        if first
        else {"result": result, "jsonrpc": "2.0", "id": id}
    )
    lines = Lines(10_000)
    found = cut(lines, json.dumps(message).encode() + b"\nnext\n", size)
    assert isinstance(found[0], Overlong)
    assert found[0].id == id
    assert found[0].size == len(json.dumps(message))
    assert max(len(found[0].head), len(found[0].tail)) <= EDGE
    assert found[1:] == [b"next"]


@pytest.mark.parametrize("id", [b"a\x00b", b"a\nb", b"\xff"])
def test_an_id_that_is_no_json_is_none(id: bytes) -> None:
    line = b'{"jsonrpc":"2.0","id":"%s","message":"no"}}' % id
    assert Overlong(line, line, len(line)).id is None
    assert not any(isinstance(one, JSONRPCResponse) for one in read_line(line, Noise()))


@pytest.mark.parametrize("text", ['{"a":{"id":5}}', "no JSON at all", '{"result":{"id":3}', '[{"id":1,'])
def test_an_id_within_is_not_taken_for_the_lines_own(text: str) -> None:
    assert Overlong((text + " " * 10).encode(), text.encode(), 1).id is None


def test_a_line_in_endless_pieces_takes_no_memory() -> None:
    lines = Lines(1_000)
    for _ in range(1_000):
        assert list(lines.feed(b"x" * 65_536)) == []
    assert sum(map(len, (lines._head, lines._tail, *lines._parts))) <= 2 * EDGE
    assert isinstance(lines.end(), Overlong)


@pytest.mark.parametrize(
    "line",
    [
        json.dumps(ANSWER),
        f"  {json.dumps(ANSWER)}  ",
        f"[50] handler added{json.dumps(ANSWER)}",
        f"{{}}{{x{json.dumps(ANSWER)} trailing",
        '{"id": 1, "result": {"ok": true}}',
        f"[{json.dumps(ANSWER)}]",
        '{"result": {"ok": true}, "id": 1}',
    ],
)
def test_mcp_01_a_valid_answer_is_found_in_its_line(line: str) -> None:
    [found] = read_line(line.encode(), Noise())
    assert isinstance(found, JSONRPCResponse)
    assert (found.id, found.result) == (1, {"ok": True})


@pytest.mark.parametrize(
    "line", ["starting up", "null", "42", '"text"', "{", "{}", "[1]", "\x00\x1b[0m", '{"a": 1}']
)
def test_mcp_01_noise_is_counted_and_shown_harmlessly(line: str) -> None:
    noise = Noise()
    assert read_line(line.encode(), noise) == []
    assert noise.count == 1
    assert str(noise).isprintable()


@pytest.mark.parametrize("tail", [b"1," * 100_000, b'"' + b"a" * 1_000_000])
def test_a_line_that_seems_to_begin_everywhere_is_not_read_from_everywhere(tail: bytes) -> None:
    """Read from each beginning it took minutes for a line of megabytes, in which nothing else ran."""
    noise, began = Noise(), time.process_time()
    assert read_line(b"x" + b'{"id":[' * 400 + tail, noise) == []
    assert noise.count == 1
    assert time.process_time() - began < 1.0
    found = read_line(b'{"id": 1 ' * 5 + json.dumps(ANSWER).encode(), noise)
    assert [isinstance(one, JSONRPCResponse) for one in found] == [True]


def test_noise_keeps_the_latest_few_and_little_of_each() -> None:
    noise = Noise()
    for number in range(100):
        noise.add(f"line {number} ".encode() + b"z" * 100_000)
    assert (noise.count, len(noise.latest)) == (100, 3)
    assert "line 99" in str(noise)
    assert len(str(noise)) < 400
    assert str(Noise()) == ""


def test_blank_lines_are_no_noise() -> None:
    noise = Noise()
    assert read_line(b" \r", noise) == []
    assert noise.count == 0


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"result":[1]}',
        b'{"jsonrpc":"2.0","id":1,"result":null}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"error":"no luck"}',
        b'{"jsonrpc":"2.0","id":1,"error":{"message":"no luck"}}',
        b'{"jsonrpc":"2.0","id":1,"result":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
        b'{"jsonrpc":"2.0","id":1,"result":{"a":' + b"9" * 5_000 + b"}}",
    ],
)
def test_an_answer_that_breaks_the_rules_fails_its_call(line: bytes) -> None:
    [found] = read_line(line, Noise())
    assert isinstance(found, JSONRPCError)
    assert found.id == 1
    assert ("no luck" in found.error.message) is (b"no luck" in line)


def test_mcp_07_broken_utf_8_is_never_silent_damage_elsewhere() -> None:
    [found] = read_line(
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"na\xefve","b":"\\ud83d\\ude00 \\ud800"}}', Noise()
    )
    assert isinstance(found, JSONRPCResponse)
    assert found.result == {"a": "na\ufffdve", "b": "😀 \ufffd"}


def test_batches_give_each_message() -> None:
    noise = Noise()
    found: list[JSONRPCMessage] = read_line(
        json.dumps([{"jsonrpc": "2.0", "method": "notifications/x"}, ANSWER, 5]).encode(), noise
    )
    heard, answered = found
    assert isinstance(heard, JSONRPCNotification)
    assert isinstance(answered, JSONRPCResponse)
    assert noise.count == 1


def test_numbers_that_json_does_not_have_become_nothing() -> None:
    [found] = read_line(b'x {"jsonrpc":"2.0","id":1,"result":{"a":NaN,"b":-Infinity}}', Noise())
    assert isinstance(found, JSONRPCResponse)
    assert found.result == {"a": None, "b": None}


@pytest.mark.parametrize(
    "result",
    [
        b'{"content":[' + b'{"type":"text","text":""},' * 500_000 + b"1]}",
        b'{"structuredContent":[' + b"[1]," * 2_000_000 + b"1]}",
    ],
)
def test_an_answer_of_too_many_values_fails_its_call_before_it_is_read(result: bytes) -> None:
    """Within the limit of bytes, such answers stopped the whole process for half a minute."""
    noise, began = Noise(), time.process_time()
    [found] = read_line(b'{"jsonrpc":"2.0","id":7,"result":%s}' % result, noise)
    assert isinstance(found, JSONRPCError)
    assert (found.id, type(found.error.data)) == (7, TooLarge)
    assert read_line(b'{"method":"notifications/x","params":%s}' % result, noise) == []
    assert noise.count == 2
    assert time.process_time() - began < 2.0


def test_what_stands_within_strings_is_no_value() -> None:
    text = '1,"{[\\",' * MOST_VALUES
    line = json.dumps({**ANSWER, "result": {"text": text}}).encode()
    [found] = read_line(line, Noise())
    assert isinstance(found, JSONRPCResponse)
    assert found.result == {"text": text}
    [again] = read_line(line.replace(b'"1,', b'"\xef,', 1), Noise())
    assert isinstance(again, JSONRPCResponse)


@pytest.mark.parametrize("hidden", [b'"', b'{"', b'x"\\'])
def test_values_cannot_be_hidden_behind_a_quote(hidden: bytes) -> None:
    began = time.process_time()
    answer = b'{"id":1,"result":{"a":[%s1]}}' % (b'",",' * 2_000_000)
    read_line(hidden + answer, Noise())
    read_line(b'{"a":"' + b"{[,x" * 1_000_000 + b"\\", Noise())
    read_line(b'""' * 4_000_000 + b"," * 200_001, Noise())
    assert time.process_time() - began < 10.0


@pytest.mark.parametrize(
    ("numbers", "taken"),
    [
        ('"progress":1', True),
        ('"progress":1.5,"total":null', True),
        ('"progress":-1,"total":10', True),
        ('"progress":1' + "0" * 400, False),
        ('"progress":1e999', False),
        ('"progress":NaN', False),
        ('"progress":"1"', False),
        ('"total":1', False),
        ('"progress":1,"total":-1' + "0" * 400, False),
    ],
)
def test_progress_has_finite_numbers_or_is_left_out(numbers: str, taken: bool) -> None:
    line = '{"jsonrpc":"2.0","method":"notifications/%s","params":{"progressToken":1,%s}}'
    assert len(read_line((line % ("progress", numbers)).encode(), Noise())) == taken
    assert len(read_line((line % ("other", numbers)).encode(), Noise())) == 1
