"""The demo of a fleet ends with every agent finished once, and fails if that is not so."""

import asyncio
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.postgres import required
from torpor import Agent, Runtime, tool
from torpor.cli.demo_audit import audit
from torpor.core.codec import decode_message
from torpor.core.messages import Call, Turn
from torpor.models import ScriptedModel, call, say
from torpor.testing.postgres import Missing, programs

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 540.0


@pytest.fixture
def server_programs() -> None:
    try:
        programs()
    except Missing as reason:
        if required():
            raise
        pytest.skip(str(reason))


@pytest.mark.slow
@pytest.mark.usefixtures("server_programs")
async def test_the_demo_ends_with_every_agent_finished_once() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *("-m", "torpor", "demo", "--fleet"), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        told, _ = await asyncio.wait_for(process.communicate(), SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
    words = told.decode()
    assert process.returncode == 0, words
    assert "all 200 have finished, each exactly once" in words
    assert len(re.findall("kill -9 of worker", words)) == 2
    assert "is stopped (SIGSTOP)" in words
    assert "goes on with what is no longer its own" in words
    assert "1200 were decided and done" in words


async def test_an_audit_sees_what_is_wrong() -> None:
    @tool
    async def look(what: str) -> str:
        """Look at something."""
        return f"saw {what}"

    agent = Agent("agent", model=ScriptedModel([call("look", what="x"), say("Done.")]), tools=[look])
    async with Runtime("memory:", agents=[agent], listen=None) as runtime:
        thread = await runtime.start("agent", "Look.")
        store = runtime.parts.store
        assert (await audit(store, [thread.id], {})).faults != [], "it has not finished"
        await thread.reply(timeout=60)
        turn = next(
            one
            for stored in await store.read(thread.id)
            if isinstance(one := decode_message(stored.body), Turn)
        )
        (made,) = (part.id for part in turn.parts if isinstance(part, Call))
        fine = await audit(store, [thread.id], {"look": Counter({made: 2})})
        assert (fine.faults, fine.repeats, fine.turns, fine.decided) == ([], 1, 2, {"look": {made}})
        lost = await audit(store, [thread.id, "nobody"], {"look": Counter({"another": 1})})
    assert lost.faults == [
        "nobody is not there",
        "1 calls of look have no effect",
        "1 effects of look were never decided",
    ]
