"""Kill -9 and SIGSTOP of processes that move trees, at random moments: each tree lives in one place."""

import asyncio
import contextlib
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from random import Random

import pytest

from tests.end_to_end.wandering import opened
from tests.web.places import until
from torpor import Runtime
from torpor.core.codec import decode_head, decode_message
from torpor.core.errors import TorporError
from torpor.core.messages import Arrived, Noted, Queued, Said, text_of
from torpor.core.moves import AWAY, MOVED, MOVING
from torpor.core.signals import SaidSignal
from torpor.core.thread import fold
from torpor.runtime.moving_plan import plan_of

ROOT = Path(__file__).resolve().parents[2]
TREES = 4
ROUNDS = 8
PATIENCE = 60.0
pytestmark = pytest.mark.slow


@contextlib.asynccontextmanager
async def process(role: str, *stores: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process at work; it is killed in the end, also if it stands still."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.end_to_end.wandering", role, *stores,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert started.stdout is not None
        async with asyncio.timeout(PATIENCE):
            await started.stdout.readline()
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.wait()


class Talk:
    """Words that are said to trees wherever they live, and what was acknowledged."""

    def __init__(self, trees: list[str], *places: Runtime) -> None:
        self.trees = trees
        self.places = places
        self.heard: dict[str, list[str]] = {tree: [] for tree in trees}

    async def go_on(self) -> None:
        number = 0
        while True:
            for tree in self.trees:
                number += 1
                for place in self.places:
                    with contextlib.suppress(TorporError):
                        await place.thread(tree).send(f"word {number}", "queue", key=f"k{number}")
                        self.heard[tree].append(f"word {number}")
                        break
            await asyncio.sleep(0.02)


async def disturbed(here: str, there: str, random: Random) -> None:
    """Movers in both directions that are killed, or stand still while another one goes on."""
    for _ in range(ROUNDS):
        ways = [(here, there), (there, here)]
        role, way = random.choice(["move", "move", "move", "stay"]), random.choice(ways)
        async with process("move", *random.choice(ways)) as first:
            await asyncio.sleep(random.uniform(0.0, 0.3))
            if random.random() < 0.5:
                first.send_signal(signal.SIGSTOP)
                async with process(role, *way):
                    await asyncio.sleep(random.uniform(0.0, 0.5))
                    first.send_signal(signal.SIGCONT)
                    await asyncio.sleep(random.uniform(0.0, 0.3))


async def completed(here: Runtime, there: Runtime, trees: list[str]) -> None:
    """End what was interrupted."""
    for one, other in ((here, there), (there, here)):
        for tree in trees:
            row, plan = await one.parts.store.row(tree), await plan_of(one.parts.side, tree)
            if row is not None and (row.state == MOVING or (row.state == MOVED and plan and not plan.done)):
                await one.move(tree, other)


async def home(tree: str, *places: Runtime) -> Runtime:
    """The one place where a tree lives."""
    rows = [await place.parts.backend.threads(root=tree) for place in places]
    living = [{row.id for row in found if row.state not in AWAY} for found in rows]
    assert sum(map(bool, living)) == 1, [[(row.id, row.state) for row in found] for found in rows]
    assert all(row.state == MOVED for found in rows for row in found if row.state in AWAY)
    place = next(place for place, ids in zip(places, living, strict=True) if ids)
    assert len(max(living, key=len)) == 2, "a root and its child"
    return place


async def words(place: Runtime, tree: str) -> Counter[str]:
    """All that was said to a tree, read or not."""
    store = place.parts.store
    history = [decode_message(one.body) for one in await store.read(tree, 0, 1_000_000)]
    said = [text_of(one.parts) for one in history if isinstance(one, Said)]
    queued = [one.note for one in history if isinstance(one, Noted) and isinstance(one.note, Queued)]
    waiting = [text_of(one.parts) for one in await store.inbox(tree) if isinstance(one, SaidSignal)]
    row = await store.row(tree)
    assert row is not None
    head = decode_head(row.head, row.shape)
    assert head == fold(history)
    assert len(queued) >= len(head.queued)
    return Counter([*said, *(text_of(one.parts) for one in head.queued), *waiting])


async def arrivals(place: Runtime) -> int:
    """How often threads came here."""
    found = 0
    for row in await place.threads(limit=1_000):
        history = await place.thread(row.id).history()
        found += sum(isinstance(one, Noted) and isinstance(one.note, Arrived) for one in history)
    return found


async def check(talk: Talk, *places: Runtime) -> None:
    for tree in talk.trees:
        found = await words(await home(tree, *places), tree)
        assert not [word for word in talk.heard[tree] if not found[word]], "nothing is lost"
        assert max(found.values()) == 1, "nothing is doubled"


async def grown(runtime: Runtime) -> list[str]:
    """Trees of a root and a child that sleeps."""
    trees = [(await runtime.start("wanderer", "hello", owner="kept")).id for _ in range(TREES)]

    async def whole() -> bool:
        rows = await runtime.threads(purpose="child", limit=1_000)
        return len([row for row in rows if row.waits]) == TREES

    await until(whole)
    return trees


async def attacked(here: str, there: str, seed: int) -> None:
    async with opened(here, workers=2) as runtime:
        trees = await grown(runtime)
    async with opened(here) as one, opened(there) as other:
        talk = Talk(trees, one, other)
        talking = asyncio.create_task(talk.go_on())
        async with contextlib.AsyncExitStack() as stack:
            for role, store in product(("work", "prune"), (here, there)):
                await stack.enter_async_context(process(role, store))
            await disturbed(here, there, Random(seed))
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)
        await completed(one, other, trees)
        await check(talk, one, other)
        assert sum([await arrivals(one), await arrivals(other)]) > 0, "trees have moved"
        assert sum(map(len, talk.heard.values())) > 20


async def test_a_tree_lives_in_one_place_whoever_moves_it(tmp_path: Path) -> None:
    await attacked(f"sqlite:///{tmp_path / 'a.db'}", f"sqlite:///{tmp_path / 'b.db'}", 3)


async def test_a_tree_lives_in_one_place_of_two_kinds(tmp_path: Path, postgres_url: str) -> None:
    await attacked(postgres_url, f"sqlite:///{tmp_path / 'b.db'}", 5)
