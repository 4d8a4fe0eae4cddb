"""A server over stdio that misbehaves in every way: each leads to a clear result, within its limit."""

import asyncio
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.connected import SOON, connected, connections, is_running, raw, text, until
from torpor import McpServer, Refused, Unavailable
from torpor.tools.mcp.faults import Declined, Lost, TimedOut, TooLarge


@pytest.mark.parametrize(
    ("name", "gives"),
    [
        ("noise", "after noise"),
        ("noise_before", "ok"),
        ("unknown", "yours"),
        ("twice", "first"),
        ("broken_text", "caf\ufffd"),
        ("surrogate", "a\ufffdb"),
        ("batch", "batched"),
        ("stderr", "ok"),
    ],
)
async def test_mcp_01_what_can_be_understood_is(name: str, gives: str) -> None:
    async with connected(raw()) as session:
        assert await text(session, name) == gives
        assert (
            json.loads(await text(session, "echo", arguments={"a": "naïve 日本 😀"}))["a"] == "naïve 日本 😀"
        )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bad_shape", "no valid JSON-RPC"),
        ("null_result", "no valid JSON-RPC"),
        ("deep", "cannot be read"),
        ("error", "no luck"),
        ("no_sense", "none of a tool"),
    ],
)
async def test_answers_that_make_no_sense_fail_their_call_at_once(name: str, words: str) -> None:
    async with connected(raw()) as session:
        with pytest.raises(Declined, match=words) as declined:
            await session.call(name, {})
        assert await text(session, "many_bytes", arguments={"size": 1}) == "y"
    if name == "error":
        assert (declined.value.code, declined.value.detail) == (-32050, {"a": 1})


@pytest.mark.parametrize("name", ["huge", "huge_last"])
async def test_an_answer_that_is_too_long_fails_its_call_and_no_other(name: str) -> None:
    async with connected(raw(result_limit=64 * 1024)) as session:
        with pytest.raises(TooLarge, match="65,536 are taken"):
            await session.call(name, {"size": 300_000})
        assert await text(session, "many_bytes", arguments={"size": 60_000}) == "y" * 60_000


async def test_fifty_megabytes_take_no_fifty_megabytes() -> None:
    async with connected(raw()) as session:
        assert await text(session, "many_bytes", arguments={"size": 1}) == "y"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(TooLarge):
            await session.call("huge", {"size": 50_000_000})
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 45_000  # kilobytes


async def test_mcp_02_a_death_in_a_call_is_told_with_its_last_words_and_the_next_call_works() -> None:
    async with connections(raw()) as sessions:
        session = await sessions.session("mcp:raw")
        first = await text(session, "pid")
        started = time.monotonic()
        with pytest.raises(Lost, match="it ended with status 7; its last words: it is all over") as lost:
            await session.call("die", {"status": 7})
        assert time.monotonic() - started < 2.0
        assert lost.value.sent
        with pytest.raises(Lost) as gone:
            await session.call("pid", {})
        assert not gone.value.sent
        assert await text(await sessions.session("mcp:raw"), "pid") != first


async def test_secrets_that_a_server_repeats_are_hidden() -> None:
    async with connected(raw(env={"API_TOKEN": "very-hidden", "PLACE": "not-hidden"})) as session:
        with pytest.raises(Declined, match=r"\[hidden\] at not-hidden"):
            await session.call("tell", {})
        with pytest.raises(Lost, match=r"my token is \[hidden\]"):
            await session.call("die", {"words": "my token is very-hidden"})


async def test_all_calls_under_way_learn_of_the_death() -> None:
    async with connected(raw()) as session:
        waiting = [asyncio.create_task(session.call("silent", {})) for _ in range(20)]
        await asyncio.sleep(0)
        with pytest.raises(Lost):
            await session.call("die", {})
        gone = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(one) for one in gone} == {Lost}


async def test_an_output_that_closes_is_an_end() -> None:
    async with connected(raw()) as session:
        with pytest.raises(Lost, match=r"it closed its output|it ended"):
            await session.call("close_output", {})


async def test_silence_ends_a_call_at_the_idle_limit_and_the_server_is_told() -> None:
    async with connected(raw(idle_timeout=0.5)) as session:
        with pytest.raises(TimedOut, match=r"no sign of life for 0\.5 s"):
            await session.call("silent", {})
        seen = json.loads(await text(session, "seen"))
    assert [one["method"] for one in seen if isinstance(one, dict)] == ["notifications/cancelled"]


async def test_mcp_11_progress_begins_the_idle_limit_anew() -> None:
    told: list[tuple[float, float | None, str]] = []

    async def progress(*how_far: Any) -> None:
        told.append(how_far)

    async with connected(raw(idle_timeout=0.8)) as session:
        steps = {"steps": 6, "every": 0.3}
        assert await text(session, "progress", arguments=steps, progress=progress) == "done"
    assert told == [(float(step), 6.0, "") for step in range(1, 7)]


async def test_mcp_11_progress_for_ever_ends_at_the_cap() -> None:
    async with connected(raw(idle_timeout=0.5, call_timeout=1.0)) as session:
        with pytest.raises(TimedOut, match="has not answered for 1 s"):
            await session.call("progress", {"steps": 20, "every": 0.1})


async def test_a_call_that_nobody_wants_any_more_is_cancelled_at_the_server() -> None:
    async with connected(raw()) as session:
        unwanted = asyncio.create_task(session.call("silent", {}))
        await text(session, "pid")
        unwanted.cancel()
        with pytest.raises(asyncio.CancelledError):
            await unwanted
        seen = json.loads(await text(session, "seen"))
    assert [one["method"] for one in seen if isinstance(one, dict)] == ["notifications/cancelled"]


async def test_answers_out_of_order_find_their_calls() -> None:
    async with connected(raw()) as session:
        answers = await asyncio.gather(text(session, "late"), text(session, "late"))
        assert len(set(answers)) == 2
        numbers = [int(answer.removeprefix("late ")) for answer in answers]
        assert numbers == sorted(numbers)


async def test_mcp_07_the_environment_is_small_and_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_SECRET", "hidden")
    monkeypatch.setenv("LC_ALL", "cp1252")
    async with connected(raw(env={"THEIRS": "given"})) as session:
        found = json.loads(await text(session, "environment"))
    assert "OUR_SECRET" not in found
    assert (found["THEIRS"], found["PATH"]) == ("given", os.environ["PATH"])
    assert (found["PYTHONUTF8"], found["LANG"], found.get("LC_ALL")) == ("1", "C.UTF-8", None)


async def test_what_a_server_has_started_ends_with_it() -> None:
    async with connected(raw()) as session:
        pids = [int(await text(session, "pid")), int(await text(session, "child"))]
        assert all(map(is_running, pids))
    assert not any(map(is_running, pids))


async def test_a_server_that_ignores_its_end_is_killed() -> None:
    async with connected(raw("ignores_end")) as session:
        pid = int(await text(session, "pid"))
    assert not is_running(pid)


async def test_the_guard_ends_servers_when_the_runtime_is_killed(tmp_path: Path) -> None:
    """A runtime is killed with -9 while a server runs that ignores its input's end and signals."""
    program = f"""
import asyncio, pathlib, sys
from tests.mcp.connected import connected, raw, text
async def main():
    async with connected(raw("ignores_end")) as session:
        pids = [await text(session, "pid"), await text(session, "child")]
        pathlib.Path({str(tmp_path / "pids")!r}).write_text(" ".join(pids) + " .")
        await asyncio.sleep(600)
asyncio.run(main())
"""
    runtime = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    noted = tmp_path / "pids"
    try:
        await until(lambda: noted.exists() and noted.read_text().endswith("."))
        pids = [int(pid) for pid in noted.read_text().split()[:2]]
        assert all(map(is_running, pids))
    finally:
        runtime.send_signal(signal.SIGKILL)
        await runtime.wait()
    await until(lambda: not any(map(is_running, pids)))


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (McpServer("s", command=["no-such-program-at-all"]), "there is no program 'no-such-program-at-all'"),
        (McpServer("s", command=["./no/such"]), "is the path right"),
        (McpServer("s", command=[sys.executable], cwd="/no/such/folder"), "there is no folder"),
    ],
)
async def test_what_cannot_be_started_is_refused(server: McpServer, words: str) -> None:
    async with connections(server) as sessions:
        for _ in range(2):
            with pytest.raises(Refused, match=words):
                await sessions.session("mcp:s")
        assert words in sessions.problems("mcp:s")[0]


async def test_a_server_that_ends_at_its_start_tells_why() -> None:
    async with connections(raw("exits")) as sessions:
        with pytest.raises(Unavailable, match="ended with status 3; its last words: no configuration"):
            await sessions.session("mcp:raw")
        with pytest.raises(Unavailable, match="no configuration") as later:
            await sessions.session("mcp:raw")
        assert later.value.retry_after is not None


async def test_a_server_that_does_not_survive_new_questions_is_asked_the_old_way() -> None:
    async with connected(raw("dies_of_news")) as session:
        assert await text(session, "echo") is not None
        assert not session.modern


async def test_a_server_that_dies_once_at_its_start_is_started_again(tmp_path: Path) -> None:
    async with connected(raw("dies_once", str(tmp_path / "ran"))) as session:
        assert await text(session, "pid")


@pytest.mark.parametrize(
    ("wrong", "words"), [("mute", "still starting"), ("noisy", "such as 'to the server'")]
)
async def test_mcp_01_the_start_limit_holds_and_noise_is_named(wrong: str, words: str) -> None:
    async with connections(raw(wrong, start_timeout=1.0)) as sessions:
        started = time.monotonic()
        with pytest.raises(Unavailable, match=words) as waiting:
            await sessions.session("mcp:raw")
        assert 0.9 < time.monotonic() - started < 3.0
        assert waiting.value.retry_after == 2.0


async def test_an_idle_connection_costs_no_time() -> None:
    async with connected(raw()) as session:
        await text(session, "pid")
        before = time.process_time()
        await asyncio.sleep(2.0)
        assert time.process_time() - before < 0.05


async def test_a_flood_of_errors_is_kept_to_its_end() -> None:
    async with connections(raw()) as sessions:
        session = await sessions.session("mcp:raw")
        await text(session, "stderr")
        with pytest.raises(Lost) as lost:
            await session.call("die", {})
    assert "line 1999" in str(lost.value)
    assert len(str(lost.value)) < 2_000


async def test_the_runtime_leaves_no_process_and_no_watcher_behind() -> None:
    async with connected(raw()) as session:
        await text(session, "pid")
        children = _children()
        assert len(children) >= 2
    await until(lambda: not (_children() & children), SOON)


def _children() -> set[int]:
    task = Path(f"/proc/{os.getpid()}/task")
    return {int(pid) for one in task.iterdir() for pid in (one / "children").read_text().split()}
