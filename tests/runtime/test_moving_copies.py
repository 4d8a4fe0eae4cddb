"""Copies in the store that a tree goes to: who may take them away, and what a move does without them."""

from typing import Any

import pytest

from tests.runtime.moving_scene import HERE, OLD, THERE, Scene, begin, memory, moved, tree, whole
from tests.runtime.world import Crash, Fate
from torpor.core.errors import Conflict, Refused, Unavailable
from torpor.core.messages import Link
from torpor.core.moves import ARRIVING, MOVED, MOVING
from torpor.runtime import moving_aborts
from torpor.runtime.deletion import away, delete
from torpor.runtime.ids import Ids
from torpor.runtime.moving import Mover, stay
from torpor.runtime.moving_plan import is_same, is_whole, name_of, plan_of
from torpor.runtime.posting import lineage_bytes
from torpor.runtime.retention import DAY, LONGEST_WAIT, Keep, prune, removable
from torpor.runtime.trees import family

OLD_GOES = Keep(closed=DAY)


async def died(count: int, name: str) -> Scene:
    """A scene whose move died after so many writes of this name."""
    scene, counted = Scene(memory), 0

    class At(Fate):
        async def pass_through(self, what: str, action: Any) -> Any:
            nonlocal counted
            counted += what == name
            if counted == count and what == name:
                self.at, self.after = self.count, True
            return await super().pass_through(what, action)

    await tree(scene.here)
    with pytest.raises(Crash):
        await scene.move(At())
    return scene


async def copied() -> Scene:
    """All is copied but the last; nothing says that it is whole."""
    return await died(2, "take_in")


async def decided(*, ended: bool) -> Scene:
    """All is copied, and the root has ended, or not."""
    scene, commit = Scene(memory), None
    await tree(scene.here)
    commit = scene.here.commit

    async def dies(change: Any) -> Any:
        if change.row.state == MOVED:
            if ended:
                await commit(change)
            raise Crash
        return await commit(change)

    scene.here.commit = dies
    with pytest.raises(Crash):
        await scene.move()
    scene.here.commit = commit
    return scene


async def gone(scene: Scene) -> None:
    """Nothing of the tree is left there."""
    assert await whole(scene.there) == {}
    assert [await scene.there.footprint(id) for id in ("root", "kid", "sum")] == [{}] * 3


async def test_copies_that_are_not_whole_are_deleted_where_they_are() -> None:
    scene = await copied()
    assert {row.state for row in await scene.there.threads()} == {ARRIVING}
    with pytest.raises(Refused, match="part of the tree of root"):
        await delete(scene.there, scene.queues[1], "kid")
    done = await delete(scene.there, scene.queues[1], "root")
    assert (done.threads, done.left) == (2, {})
    await gone(scene)
    assert await scene.move() == ["root", "kid", "sum"]
    await moved(scene)


async def test_a_move_under_way_notices_that_its_copies_were_taken_away() -> None:
    scene = Scene(memory)
    await tree(scene.here)
    before = await whole(scene.here)
    take_in = scene.there.take_in

    async def and_deleted(exported: Any) -> bool:
        taken: bool = await take_in(exported)
        if exported.row.thread == "kid":
            await delete(scene.there, scene.queues[1], "root")
        return taken

    scene.there.take_in = and_deleted
    with pytest.raises(Conflict, match="taken away meanwhile"):
        await scene.move()
    assert {id: one.row.state for id, one in (await whole(scene.here)).items()} == dict.fromkeys(
        before, "open"
    )
    await gone(scene)  # that of the child, which came after, too


async def test_a_copy_that_comes_to_live_while_it_is_deleted_is_left_alone() -> None:
    scene = await decided(ended=True)
    mark = scene.there.delete

    async def meanwhile(*given: Any, **more: Any) -> Any:
        scene.there.delete = mark
        await scene.move()
        return await mark(*given, **more)

    scene.there.delete = meanwhile
    with pytest.raises(Refused, match="has arrived meanwhile"):
        await delete(scene.there, scene.queues[1], "root", moving=True)
    await moved(scene)


async def test_children_whose_root_was_taken_away_are_deleted_by_its_id() -> None:
    scene = await copied()
    row = await scene.there.row("root")
    kid = await scene.there.export("kid")
    await scene.there.delete(["root", "kid"], versions={"root": row.version, "kid": kid.row.version})
    for id in ("root", "kid"):
        await scene.there.erase(id)
    await scene.there.take_in(kid)
    done = await delete(scene.there, scene.queues[1], "root")
    assert (done.threads, done.left) == (1, {})
    await gone(scene)


@pytest.mark.parametrize("ended", [False, True])
async def test_copies_that_may_be_all_there_is_are_deleted_only_on_request(ended: bool) -> None:
    scene = await decided(ended=ended)
    assert is_whole(await scene.there.row("root"))
    with pytest.raises(Refused, match="may have ended it already") as refused:
        await delete(scene.there, scene.queues[1], "root")
    assert "--moving" in str(refused.value)
    done = await delete(scene.there, scene.queues[1], "root", moving=True)
    assert (done.threads, done.left) == (3, {})
    await gone(scene)
    if not ended:
        assert await scene.move() == ["root", "kid", "sum"]
        await moved(scene)
        return
    with pytest.raises(Refused, match=r"left for sqlite:///there.db, but 'root' was deleted there"):
        await scene.move()
    assert (await scene.here.row("kid")).state == MOVING
    with pytest.raises(Refused, match="has not arrived"):
        await delete(scene.here, scene.queues[0], "root")
    assert (await delete(scene.here, scene.queues[0], "root", moving=True)).left == {}


async def test_a_child_that_was_taken_away_keeps_the_others_from_living() -> None:
    scene = await decided(ended=True)
    kid = await scene.there.row("kid")
    await scene.there.delete(["kid"], versions={"kid": kid.version})
    with pytest.raises(Refused, match="'kid' was deleted there"):
        await scene.move()
    assert (await scene.there.row("root")).state == ARRIVING


async def test_what_lives_there_already_may_be_deleted_before_the_move_is_complete() -> None:
    scene = await died(1, "ring")
    states = {id: one.row.state for id, one in (await whole(scene.there)).items()}
    assert states["root"] == "open"
    await delete(scene.there, scene.queues[1], "root")
    await gone(scene)
    with pytest.raises(Refused, match="was deleted there"):
        await scene.move()


@pytest.mark.parametrize("state", ["copied", "whole"])
async def test_a_move_that_is_given_up_takes_its_copies_back(state: str) -> None:
    scene = await (copied() if state == "copied" else decided(ended=False))
    await scene.stay()
    await gone(scene)
    assert [row.state for row in await scene.here.threads()] == ["open", "open"]
    with pytest.raises(Refused, match="is not moving"):
        await scene.stay()


async def test_a_move_that_is_given_up_while_the_other_store_is_away_says_so() -> None:
    scene = await copied()
    here = scene.places(Fate())[0]
    assert not await stay(here, "root", scene.clock, Ids())
    assert {row.state for row in await scene.there.threads()} == {ARRIVING}
    assert (await delete(scene.there, scene.queues[1], "root")).left == {}
    await gone(scene)


async def test_giving_up_is_completed_after_a_death() -> None:
    for point in ("delete", "erase"):
        scene = await copied()
        real = getattr(scene.there, point)

        async def dies(*given: Any, do: Any = real, **more: Any) -> Any:
            await do(*given, **more)
            raise Crash

        setattr(scene.there, point, dies)
        with pytest.raises(Crash):
            await scene.stay()
        setattr(scene.there, point, real)
        await scene.stay()
        await gone(scene)
        assert await scene.there.deleted() == []


async def test_copies_of_another_attempt_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await copied()
    plan = await plan_of(scene.here, "root")
    assert plan is not None
    rows = await scene.here.threads()
    rows.sort(key=lambda row: row.thread != "root")
    assert await moving_aborts.take_back(scene.there, rows[0].thread, rows, ["another"]) == []

    async def and_meanwhile(there: Any, root: str) -> Any:
        found = await family(there, root)
        await scene.move()
        return found

    monkeypatch.setattr(moving_aborts, "family", and_meanwhile)
    assert await moving_aborts.take_back(scene.there, rows[0].thread, rows, plan.attempts) == []
    await moved(scene)


async def test_a_history_that_came_along_goes_with_the_copies() -> None:
    scene = Scene(memory)
    await tree(scene.here)
    await begin(scene.here, "heir", root="heir", source="root", lineage=lineage_bytes((Link("root", 3),)))
    here, there = scene.places(Fate())
    commit = scene.here.commit

    async def away(change: Any) -> Any:
        if change.row.state == MOVED:
            raise Unavailable("The disk is away.")
        return await commit(change)

    scene.here.commit = away
    with pytest.raises(Unavailable):
        await Mover(here, there, scene.servers, scene.clock, Ids()).move("heir", {OLD: "http://new"})
    assert await whole(scene.there) == {}


async def test_a_second_mover_stops_the_first_which_stood_still() -> None:
    """What was made of an earlier version comes too late, wherever the process that made it was stopped."""
    scene = Scene(memory)
    await tree(scene.here)
    commit = scene.here.commit

    async def overtaken(change: Any) -> Any:
        if change.row.state == MOVED and change.thread == "root":
            scene.here.commit = commit
            assert await scene.move() == ["root", "kid", "sum"]
        return await commit(change)

    scene.here.commit = overtaken
    assert await scene.move() == ["root", "kid", "sum"]
    assert scene.servers.told.count(f"migrate {OLD} root http://new") == 1
    assert {one.row.state for one in (await whole(scene.there)).values()} == {"open"}


async def test_a_tree_that_left_without_a_plan_arrives_all_the_same() -> None:
    scene = await decided(ended=True)
    await scene.here.put("moves", "root", b"")
    assert await scene.move() == ["root", "kid", "sum"]
    assert {one.row.state for one in (await whole(scene.there)).values()} == {"open"}


async def test_what_has_moved_goes_once_it_is_old_and_nothing_is_handed_on_for_it() -> None:
    scene = await decided(ended=True)
    scene.clock.advance(2 * DAY)
    assert (await prune(scene.here, OLD_GOES)).threads == ()  # it has not arrived
    await scene.move()
    scene.clock.advance(2 * DAY)
    assert (await prune(scene.here, OLD_GOES)).threads == ()  # callbacks may come for it
    scene.clock.advance(LONGEST_WAIT)
    await prune(scene.here, OLD_GOES)
    assert set((await prune(scene.here, OLD_GOES, dry_run=True)).threads) == {"root", "kid", "sum"}
    assert set((await prune(scene.here, OLD_GOES)).threads) == {"root", "kid", "sum"}
    assert [await scene.here.footprint(id) for id in ("root", "kid", "sum")] == [{}] * 3
    assert {one.row.state for one in (await whole(scene.there)).values()} == {"open"}


async def test_a_husk_whose_tree_comes_back_is_not_pruned() -> None:
    scene = Scene(memory)
    await tree(scene.here)
    await scene.move()
    await scene.here.forget("forwards", scene.clock.now() + 1)
    scene.clock.advance(2 * DAY)
    rows = await removable(scene.here, "root", scene.clock.now() - DAY)
    assert {row.thread for row in rows} == {"root", "kid", "sum"}
    here, there = scene.places(Fate())
    await Mover(there, here, scene.servers, scene.clock, Ids()).move("root", {"http://new": OLD})
    with pytest.raises(Conflict):
        await scene.here.delete(
            [row.thread for row in rows], closed_before=scene.clock.now() - DAY, versions=away(rows)
        )
    assert (await prune(scene.here, OLD_GOES)).threads == ()


async def test_prune_leaves_a_move_that_is_under_way_alone() -> None:
    scene = Scene(memory)
    await tree(scene.here)
    scene.clock.advance(2 * DAY)
    take_in = scene.there.take_in

    async def and_prune(exported: Any) -> bool:
        taken: bool = await take_in(exported)
        for store in scene.stores:
            assert (await prune(store, OLD_GOES)).threads == ()
        return taken

    scene.there.take_in = and_prune
    await scene.move()
    await moved(scene)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("memory:", "memory:"),
        ("postgresql://me:secret@Host:5432/db", "postgresql://me@Host:5432/db"),
        ("postgresql://me@host/db?password=secret&pool=4", "postgresql://me@host/db"),
        ("postgresql://me:a@b@host/db", "postgresql://me@host/db"),
        (
            "postgresql:///db?host=/run/pg&sslmode=require&port=6000",
            "postgresql:///db?host=/run/pg&port=6000",
        ),
    ],
)
def test_places_are_named_with_who_opens_them_and_without_secrets(url: str, name: str) -> None:
    assert name_of(url) == name


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql://me:secret@Host:5432/db", "postgresql://you@host/db", True),
        ("postgresql://me@host/db", "postgresql://me@host/other", False),
        ("postgresql://me@host:5433/db", "postgresql://me@host/db", False),
        ("postgresql:///db?host=/a", "postgresql:///db?host=/b", False),
        ("postgresql://a:5432,b/db", "postgresql://a,b:5432/db", True),
        ("sqlite:///x/../a.db", "sqlite:///a.db", True),
        ("sqlite:///a.db", "sqlite:////a.db", False),
        (HERE, THERE, False),
    ],
)
def test_who_opens_a_place_makes_it_no_other(one: str, other: str, same: bool) -> None:
    assert is_same(one, other) is same
