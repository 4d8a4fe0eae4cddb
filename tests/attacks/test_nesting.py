"""JSON that is nested deeper than whoever walks through it can bear."""

from collections.abc import Callable

import pytest

from torpor.core.errors import Refused
from torpor.tools.catalog import read_manifest
from torpor.tools.protocol import parse_callback
from torpor.tools.server.wire import read_invocation, read_notice
from torpor.tools.strict import DEEPEST, parse_object


def manifest(inner: str) -> bytes:
    tool = f'{{"name":"a","description":"d","inputSchema":{{"type":"object","default":{inner}}}}}'
    return f'{{"name":"n","endpoint":"https://a.test/x","tools":[{tool}]}}'.encode()


def callback(inner: str) -> bytes:
    segment = f'{{"type":"diff","content":{{"path":"a","patch":"b","more":{inner}}}}}'
    return f'{{"type":"tool_result","group_id":"T","id":"c","text":"x","display_as":[{segment}]}}'.encode()


def call(inner: str) -> bytes:
    url = '"callback_url":"http://127.0.0.1/"'
    return f'{{"group_id":"T","id":"c",{url},"operation":"x","arguments":{{"a":{inner}}}}}'.encode()


def notice(inner: str) -> bytes:
    return f'{{"thread_id":"T","tool_call_id":"c","more":{inner}}}'.encode()


BODIES: list[tuple[Callable[[bytes], object], Callable[[str], bytes]]] = [
    (read_manifest, manifest),
    (parse_callback, callback),
    (read_invocation, call),
    (read_notice, notice),
]


@pytest.mark.parametrize(("read", "body"), BODIES)
@pytest.mark.parametrize("depth", [*range(DEEPEST, 1_000, 50), 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_refused(
    read: Callable[[bytes], object], body: Callable[[str], bytes], depth: int, opening: str, closing: str
) -> None:
    with pytest.raises(Refused):
        read(body(opening * depth + "1" + closing * depth))


@pytest.mark.parametrize(("read", "body"), BODIES)
def test_what_people_nest_is_read(read: Callable[[bytes], object], body: Callable[[str], bytes]) -> None:
    depth = DEEPEST - 10
    read(body('{"a":[' * (depth // 2) + "1" + "]}" * (depth // 2)))


def test_the_bound_is_exact() -> None:
    assert parse_object('{"a":' * DEEPEST + "1" + "}" * DEEPEST)
    with pytest.raises(Refused):
        parse_object('{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1))
