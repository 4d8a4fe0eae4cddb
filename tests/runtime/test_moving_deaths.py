"""A process dies before or after every durable action of a move: it is completed, or the tree stays."""

import asyncio
from itertools import product
from pathlib import Path

import pytest

from tests.runtime.moving_scene import Fresh, Scene, memory, moved, sqlite, stays, tree, whole
from tests.runtime.world import Crash, Fate
from torpor.core.errors import Refused
from torpor.core.moves import MOVED
from torpor.runtime.moving_plan import plan_of


async def test_the_small_things_go_along() -> None:
    scene = Scene(memory)
    await tree(scene.here)
    assert await scene.move() == ["root", "kid", "sum"]
    await moved(scene)
    with pytest.raises(Refused, match="was moved to"):
        await scene.move()
    with pytest.raises(Refused, match="is not moving"):
        await scene.stay()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_every_death_ends_in_a_move_or_in_none(kind: str, tmp_path: Path) -> None:
    async def every_death() -> int:
        counted = Fate()
        scene = Scene(memory)
        await tree(scene.here)
        await scene.move(counted)
        fates = list(product(range(counted.count), (False, True)))
        for number, (at, after) in enumerate(fates[:: 1 if kind == "memory" else 9]):
            for again in (True, False):
                folder = tmp_path / f"{number}{again}"
                folder.mkdir()
                await one_death(memory if kind == "memory" else sqlite(folder), Fate(at, after=after), again)
        return len(fates)

    assert asyncio.run(every_death()) >= 60


async def one_death(fresh: Fresh, fate: Fate, again: bool) -> None:
    scene = Scene(fresh)
    await tree(scene.here)
    before = await whole(scene.here)
    with pytest.raises(Crash):
        await scene.move(fate)
    root = await scene.here.row("root")
    plan = await plan_of(scene.here, "root")
    if plan and plan.done:
        await moved(scene)
    elif root.state == MOVED or again:
        assert await scene.move() == ["root", "kid", "sum"], fate.where
        await moved(scene)
    else:
        await stays(scene, before)
    await scene.close()
