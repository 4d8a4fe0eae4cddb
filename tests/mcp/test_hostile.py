"""Servers that misbehave, in an agent's thread: each fault is a clear result, within its limit."""

import resource
import time
from typing import Any

import pytest

from tests.mcp.connected import raw
from tests.mcp.odd_http import OddServer, served
from torpor import Agent, McpServer, Runtime
from torpor.core.messages import Result, text_of
from torpor.models import ScriptedModel, call, say

SOON = 60.0

FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("noise", {}, "after noise"),
    ("noise_before", {}, "ok"),
    ("huge", {"size": 50_000_000}, "16,777,216 are taken"),
    ("huge_last", {"size": 20_000_000}, "16,777,216 are taken"),
    ("many_bytes", {"size": 10_000_000}, "yyyy"),
    ("silent", {}, "no sign of life for 2 s"),
    ("progress", {"steps": 65, "every": 0.1}, "has not answered"),
    ("endless", {}, "after all"),
    ("unknown", {}, "yours"),
    ("twice", {}, "first"),
    ("broken_text", {}, "caf\ufffd"),
    ("surrogate", {}, "a\ufffdb"),
    ("bad_shape", {}, "no valid JSON-RPC"),
    ("bad_content", {}, "good"),
    ("null_result", {}, "no valid JSON-RPC"),
    ("no_sense", {}, "none of a tool"),
    ("deep", {}, "cannot be read"),
    ("error", {}, "no luck"),
    ("batch", {}, "batched"),
    ("nonsense", {}, "after nonsense"),
    ("change", {"times": 200}, "changed"),
    ("stderr", {}, "ok"),
    ("die", {"status": 9}, "outcome is unknown"),
    ("close_output", {}, "outcome is unknown"),
    ("child", {}, ""),
]

ODD: list[tuple[str, str]] = [
    ("busy", "given up"),
    ("broken", "outcome is unknown"),
    ("taken", "without answering it"),
    ("page", "no MCP"),
    ("declined", "wrong arguments"),
    ("cut_off", "outcome is unknown"),
    ("resumed", "resumed after e1"),
    ("noise", "after noise"),
    ("other_id", "mine"),
    ("silent", "no sign of life for 2 s"),
]


async def results(server: McpServer, *calls: Any) -> list[Result]:
    agent = Agent("clerk", model=ScriptedModel([*calls, say("done")]), tools=[server])
    async with Runtime("memory:", agents=[agent], listen=None) as runtime:
        thread = await runtime.start("clerk", "begin")
        assert (await thread.reply(timeout=SOON)).text == "done"
        return [message for message in await thread.history() if isinstance(message, Result)]


async def test_what_breaks_the_rules_is_not_logged_line_by_line(caplog: pytest.LogCaptureFixture) -> None:
    [found] = await results(raw(), call("nonsense"))
    assert text_of(found.parts) == "after nonsense"
    assert not [record for record in caplog.records if "validate" in record.getMessage()]


async def test_every_fault_over_stdio_is_a_clear_result_and_memory_stays_bounded() -> None:
    server = raw(idle_timeout=2.0, call_timeout=6.0)
    await results(server, call("echo"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.monotonic()
    found = await results(server, *(call(name, **arguments) for name, arguments, _ in FAULTS))
    assert time.monotonic() - started < SOON
    for (name, _, words), result in zip(FAULTS, found, strict=True):
        assert words in text_of(result.parts), name
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # kilobytes


@pytest.mark.parametrize(
    ("wrong", "extra"), [("dies_of_news", ""), ("circle", ""), ("pages", ""), ("slow", "2")]
)
async def test_servers_with_odd_starts_and_lists_work(wrong: str, extra: str) -> None:
    name = {"circle": "tool1", "pages": "tool7"}.get(wrong, "pid")
    server = raw(*filter(None, (wrong, extra)))
    if name == "pid":
        [found] = await results(server, call("pid"))
        assert text_of(found.parts).isdigit()
    else:
        await results(server)


async def test_every_fault_over_http_is_a_clear_result() -> None:
    odd = OddServer()
    async with served(odd.app) as url:
        server = McpServer("odd", url=f"{url}/mcp", idle_timeout=2.0, call_timeout=10.0)
        found = await results(server, *(call(name) for name, _ in ODD))
    for (name, words), result in zip(ODD, found, strict=True):
        assert words in text_of(result.parts), name
