"""When tool servers are asked about old calls, and that no such timer outlives its call."""

import msgspec
import pytest

from tests.core.playing import TOOLS, Played, call, tool
from torpor.core.checks import FIRST, MARGIN, MOST, check_id, next_check, open_checks
from torpor.core.effects import Check
from torpor.core.signals import Due


def test_questions_come_ever_more_rarely_and_then_daily() -> None:
    now, dues = 0.0, []
    for _ in range(8):
        number, now = next_check(0.0, now)
        dues.append((number, now))
    assert dues[:5] == [(n, FIRST * (2**n - 1)) for n in range(1, 6)]
    assert [due - FIRST * 31 for _, due in dues[5:]] == [MOST, 2 * MOST, 3 * MOST]
    assert [number for number, _ in dues[5:]] == [6, 7, 8]


@pytest.mark.parametrize("age", [0.0, 3_539.0, 3_541.0, 3_600.0, 10_750.0, 111_590.0, 300_000.0])
@pytest.mark.parametrize("later", [0.0, 30.0, 61.0, 3_000.0])
def test_whatever_question_is_open_is_found_again(age: float, later: float) -> None:
    number, due = next_check(0.0, age)
    if due >= age + later:
        assert check_id("c", number, held=True) in open_checks("c", 0.0, age + later, held=True)


def test_a_call_that_goes_out_late_is_left_in_peace_at_first() -> None:
    played = Played(parallel=1)
    played.absorb(played.text())
    a, b = played.reply(call("read"), call("remote"))
    opened = played.now
    played.now += FIRST - 10.0
    played.absorb(played.result(a))
    assert played.timer(b, "status/2").due == opened + 3 * FIRST > played.now + MARGIN
    played.absorb(played.result(b))
    assert played.timers == {}


def test_a_question_is_asked_and_the_next_one_set() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("remote"))
    first = played.timer(a, "status/1")
    played.now = first.due
    played.absorb(first)
    assert played.effects[-1] == Check(f"{a}/check/{first.due:.0f}", a, played.head.pending[a].server)
    assert list(played.timers) == [f"{a}/status/2"]
    played.absorb(played.result(a, subscription=True))
    held = played.timer(a, "held/1")
    played.now = held.due
    played.absorb(held)
    asked = played.effects[-1]
    assert isinstance(asked, Check)
    assert asked.subscription
    played.absorb(played.event(a, final=True))
    assert played.timers == {}


def test_whoever_carries_a_call_on_is_not_asked_about_it() -> None:
    played = Played()
    tools = {**TOOLS, "bridged": tool("bridged", server="mcp:x")}
    played.definition = msgspec.structs.replace(played.definition, tools=tools)
    played.absorb(played.text())
    [a] = played.reply(call("bridged"))
    assert played.head.pending[a].server == "mcp:x"
    assert played.timers == {}


def test_nobody_is_asked_about_what_is_settled() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("remote"))
    timer = Due(played.last.thread if played.last else "", "late", played.now, call=a, what="status")
    played.absorb(played.result(a, cause="unknown"))
    played.absorb(timer)
    assert played.outcomes["late"] == "settled already"
    assert not [effect for effect in played.effects if isinstance(effect, Check)]
