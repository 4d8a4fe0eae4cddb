"""What a thread waits for is said as far as it is known, also where a call or a manifest hangs."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.test_thousand_callbacks import TOOLS, Silent
from tests.web.places import store_of, until
from torpor import Agent, RapServer, Runtime, Thread
from torpor.core.effects import Invoke
from torpor.core.errors import Unavailable
from torpor.core.head import Child, Compaction, Gathered, Head, OpenCall, Subscription
from torpor.core.parts import OpenWait
from torpor.core.signals import AnySignal, Due, SaidSignal
from torpor.core.views import Progress
from torpor.models import ScriptedModel, call, fail, say
from torpor.ports import OutboxRow, Row
from torpor.runtime.explain import Known, explain
from torpor.runtime.stepping import step
from torpor.testing.clock import FakeClock

NOW = 1_000_000_000.0
AT = "2001-09-09 01:46:50 UTC"
INVOKE = Invoke("c/invoke", "c", "f", "{}")
ROW = Row(thread="t", agent="worker", updated=NOW - 20)


class Away(Silent):
    """A tool server that says when to come again, to every call or before it tells what it can do."""

    def __init__(self, *, also_manifest: bool = False) -> None:
        super().__init__()
        self.also_manifest = also_manifest

    async def discover(self, server: str) -> bytes:
        if self.also_manifest:
            raise Unavailable("It is away.")
        return await super().discover(server)

    async def invoke(self, server: str, endpoint: str, body: Any, key: str) -> None:
        raise Unavailable("It is away.", retry_after=600.0)


@asynccontextmanager
async def started(script: Any, store: str, *tools: Any, **options: Any) -> AsyncIterator[Thread]:
    agents = [Agent("worker", model=ScriptedModel(script), tools=tools)]
    async with Runtime(store, agents=agents, listen=None, public_url="http://here", **options) as runtime:
        yield await runtime.start("worker", "go")


async def explained(thread: Thread, says: str) -> str:
    """What is said of a thread once it matches; a reply that does not come says the same."""

    async def told() -> bool:
        return re.search(says, (await thread.explain()).text) is not None

    await until(told)
    with pytest.raises(TimeoutError, match=says):
        await thread.reply(0)
    return (await thread.explain()).text


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_call_that_no_tool_server_accepts(kind: str, tmp_path: Path) -> None:
    script, server = [call("build", what="x")], RapServer(TOOLS)
    async with started(script, store_of(kind, tmp_path), server, transport=Away()) as thread:
        says = r"build \(for \d+ s, not accepted by its tool server yet, 1 try, next at \d{4}-"
        await explained(thread, says)
        [waiting] = (await thread.explain()).waits
        assert (waiting.kind, waiting.until) == ("call", 0.0)


async def test_a_call_that_was_accepted() -> None:
    script, server, taking = [call("build", what="x")], RapServer(TOOLS), Silent()
    async with started(script, "memory:", server, transport=taking) as thread:
        await explained(thread, r"waits for build \(for \d+ s\)\.$")


async def test_a_manifest_that_does_not_come() -> None:
    server, away = RapServer(TOOLS), Away(also_manifest=True)
    async with started([say("Hi.")], "memory:", server, transport=away) as thread:
        text = await explained(thread, rf"waits for the manifest of {TOOLS} \(for \d+ s\)")
        assert "worker to run" not in text


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_model_that_fails(kind: str, tmp_path: Path) -> None:
    script = [fail(Unavailable("The shop\nis closed.", retry_after=600.0))]
    async with started(script, store_of(kind, tmp_path)) as thread:
        says = r"its model, which failed once: The shop is closed; it is asked again at \d{4}-"
        await explained(thread, says)


CASES: dict[str, tuple[OpenCall, OutboxRow | None, str]] = {
    "accepted": (OpenCall("f", 1, server=TOOLS, at=NOW), None, "f (for 0 s)"),
    "first try under way": (
        OpenCall("f", 1, server=TOOLS, at=NOW), OutboxRow(INVOKE, 1, 0.0, NOW + 5),
        "f (for 0 s)",
    ),
    "third try under way": (
        OpenCall("f", 1, server=TOOLS, at=NOW), OutboxRow(INVOKE, 3, 0.0, NOW + 5),
        "f (for 0 s, not accepted by its tool server yet, try 3 is under way)",
    ),
    "three tries failed": (
        OpenCall("f", 1, server=TOOLS, at=NOW), OutboxRow(INVOKE, 3, NOW + 10),
        f"f (for 0 s, not accepted by its tool server yet, 3 tries, next at {AT})",
    ),
    "held back": (
        OpenCall("f", 1, held=True, at=NOW), None,
        "f (for 0 s, not begun: the calls before it fill the parallel limit)",
    ),
    "a function that runs": (
        OpenCall("f", 1, at=NOW), OutboxRow(INVOKE, 2, 0.0, NOW + 5), "f (for 0 s)",
    ),
    "a function whose process died": (
        OpenCall("f", 1, at=NOW), OutboxRow(INVOKE, 1, 0.0, NOW - 5),
        "f (for 0 s, its process is gone, next when a worker looks)",
    ),
    "a function that was given back": (
        OpenCall("f", 1, at=NOW), OutboxRow(INVOKE, 1, NOW + 10),
        f"f (for 0 s, given back, next at {AT})",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_how_far_a_call_has_come(name: str) -> None:
    open_, left, says = CASES[name]
    known = Known(ROW, Head(pending={"c": open_}), [], [left] if left else [], NOW)
    assert explain(known).text == f"The thread waits for {says}."


def test_a_provider_that_wants_to_be_left_alone() -> None:
    row = Row(thread="t", agent="worker", updated=NOW - 20, not_before=NOW + 10)
    text = explain(Known(row, Head(owed=1), [], [], NOW)).text
    assert text == f"The thread waits for its model, whose provider wants no request before {AT}."


def _said(at: float, tier: str = "", mode: str = "steer") -> SaidSignal:
    return SaidSignal("t", f"said/{at}", at, tier=tier, mode=mode)


def _due(at: float) -> Due:
    return Due("t", f"due/{at}", at - 100, due=at, call="c", what="sleep")


OWING = Head(owed=1)
WORKER = "a worker to run its next slice"
RUNG: dict[str, tuple[Head, list[AnySignal], dict[str, Any], str]] = {
    "an answer owed since the last slice": (OWING, [], {}, f"{WORKER} (for 20 s)"),
    "news that came later": (Head(), [_said(NOW - 3)], {}, f"{WORKER} (for 3 s)"),
    "the first of several": (
        Head(), [_said(NOW - 1), _said(NOW - 7), _due(NOW - 5)], {}, f"{WORKER} (for 7 s)",
    ),
    "a timer": (Head(), [_due(NOW - 5), _due(NOW + 5)], {}, f"{WORKER} (for 5 s)"),
    "a pause that is over": (OWING, [], {"not_before": NOW - 4}, f"{WORKER} (for 4 s)"),
    "news that gathers company": (
        Head(), [_said(NOW - 15)], {"tier": "async"},
        "more news until 2001-09-09 01:47:20 UTC, when its next slice is due (for 15 s)",
    ),
    "news that has gathered company": (Head(), [_said(NOW - 57)], {"tier": "async"}, f"{WORKER} (for 2 s)"),
    "words in a hurry": (Head(), [_said(NOW - 2, "realtime")], {"tier": "batch"}, f"{WORKER} (for 2 s)"),
    "an interruption": (Head(), [_said(NOW - 2, "", "interrupt")], {"tier": "batch"}, f"{WORKER} (for 2 s)"),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNG)
def test_a_worker_is_waited_for_since_it_could_have_come(name: str) -> None:
    head, inbox, fields, says = RUNG[name]
    row = Row(thread="t", agent="worker", **{"updated": NOW - 20, **fields})
    assert explain(Known(row, head, inbox, [], NOW)).text == f"The thread waits for {says}."
    unknown = explain(Known(row, head, inbox, [], NOW, agents=("other",)))
    assert unknown.waits[0].kind == "agent"
    assert unknown.waits[0].since <= NOW


@pytest.mark.parametrize(
    ("progress", "says"),
    [
        (Progress(0.5, "compiling", NOW - 90), "f (for 100 s, 50% done: compiling, said 90 s ago)"),
        (Progress(0.5, "compiling"), "f (for 100 s, 50% done: compiling)"),
        (Progress(at=NOW - 90), "f (for 100 s)"),
    ],
)
def test_progress_is_shown_with_its_age(progress: Progress, says: str) -> None:
    head = Head(pending={"c": OpenCall("f", 1, at=NOW - 100)})
    assert (
        explain(Known(ROW, head, [], [], NOW, progress={"c": progress})).text
        == f"The thread waits for {says}."
    )


FAMILY = Head(
    agent="worker",
    children={
        "kid": Child("c1", at=NOW - 3, title="Depot 1"),
        "done": Child("c2", state="ended"),
        "event": Child("s", "event", at=NOW - 2, source="s"),
    },
    subscriptions={"s": Subscription("watch", "{}", "http://a", 3, NOW - 30)},
    gathered={"s": Gathered((4, 5), NOW - 1)},
    compaction=Compaction("writer", 3, NOW - 9),
    waits={"t.c3.choice": OpenWait("t.c3.choice", "choice", "c3", "pick", NOW - 4, "Left\nor right?")},
)


def test_a_family_is_explained() -> None:
    inbox = [Due("t", "x", NOW, due=NOW + 5, call="s", what="events")]
    told = explain(Known(ROW, FAMILY, inbox, (), NOW))
    assert told.text == (
        "The thread waits for "
        'a person\'s choice for pick (for 4 s, asked is: "Left or right?"); '
        "events of watch (for 30 s); "
        "a child for events of watch (for 1 s, until 2001-09-09 01:46:45 UTC, 2 events gathered, "
        "1 child at work on earlier ones); "
        "word of its child kid (Depot 1) (for 3 s); "
        "word of its child event (for 2 s); "
        "the summary of its history that writer writes (for 9 s)."
    )
    assert not any(wait.blocks for wait in told.waits)


def test_a_timer_that_asks_about_an_old_call_is_no_end_of_it() -> None:
    inbox = [Due("t", "x", NOW, due=NOW + 50, call="c", what="status")]
    head = Head(agent="worker", pending={"c": OpenCall("f", 1, at=NOW - 20)})
    assert explain(Known(ROW, head, inbox, (), NOW)).text == "The thread waits for f (for 20 s)."


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_who_waits_for_a_manifest_holds_no_work_that_nobody_rang_for(kind: str, tmp_path: Path) -> None:
    clock, server = FakeClock(), RapServer(TOOLS)
    away = Away(also_manifest=True)
    async with started(
        [say("Hi.")], store_of(kind, tmp_path), server, transport=away, workers=0, clock=clock
    ) as thread:
        runtime = thread._parts
        for _ in range(3):  # the first look has news to write, the others have not
            result = await step(runtime.kit, runtime.dispatcher, [thread.id])
            assert result.items[0].outcome == "again"
            assert result.again_at > clock.now()
            assert await runtime.store.stranded() == []
            assert "the manifest of" in (await thread.explain()).text
            clock.advance(result.again_at - clock.now())
            assert [row.thread for row, _ in await runtime.store.stranded()] == [thread.id]
        await thread.stop()
        await step(runtime.kit, runtime.dispatcher, [thread.id])
        assert (await thread.row()).state == "stopped"
