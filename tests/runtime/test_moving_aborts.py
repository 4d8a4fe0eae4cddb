"""A move that fails leaves the tree as it was; what others do meanwhile is waited for."""

import asyncio
from typing import Any

import pytest

from tests.runtime.moving_scene import (
    HERE,
    NEW,
    OLD,
    THERE,
    Scene,
    Servers,
    begin,
    memory,
    moved,
    stays,
    tree,
    whole,
)
from tests.runtime.world import Fate
from torpor.core.codec import decode_message
from torpor.core.effects import Invoke
from torpor.core.errors import Conflict, Refused, TorporError, Unavailable
from torpor.core.messages import Link, Noted, Text
from torpor.core.moves import ARRIVING, MOVED, MOVING
from torpor.core.record import SliceRecord
from torpor.core.signals import Finished, HappenedSignal, SaidSignal
from torpor.runtime.deletion import delete
from torpor.runtime.ids import Ids
from torpor.runtime.moving import Mover, stay
from torpor.runtime.moving_plan import MOVES
from torpor.runtime.moving_tree import TRIES
from torpor.runtime.posting import lineage_bytes


async def scene_of_a_tree() -> Scene:
    scene = Scene(memory)
    await tree(scene.here)
    return scene


async def fails(scene: Scene, kind: type[TorporError], match: str, **options: Any) -> None:
    """A move is refused, and nothing of the tree has changed."""
    before = await whole(scene.here)
    with pytest.raises(kind, match=match):
        await scene.move(**options)
    await stays(scene, before)
    assert not await scene.here.get(MOVES, "root")


async def test_a_server_that_refuses_keeps_the_tree_here() -> None:
    scene = await scene_of_a_tree()
    scene.servers.refuses = "the disk is full"
    await fails(scene, Refused, "disk is full")
    assert scene.servers.told == [f"migrate {OLD} root {NEW}"]
    assert await whole(scene.there) == {}
    scene.servers.refuses, scene.servers.told = "", []
    for thread in ("root", "kid", "sum"):
        await scene.here.release(thread, ["c-1/invoke"], 0.0, holder="anybody")
    await scene.move()
    assert [row.state for row in await scene.there.threads()] == ["open", "open"]


async def test_a_server_that_keeps_state_needs_a_place() -> None:
    scene = await scene_of_a_tree()
    await fails(scene, Refused, "say at which URL", servers={})
    await fails(scene, Refused, "No thread of this tree uses", servers={"http://other": NEW})
    assert scene.servers.told == []


async def test_a_thread_that_is_there_already_is_left_alone() -> None:
    scene = await scene_of_a_tree()
    await begin(scene.there, "kid")
    there = await scene.there.export("kid")
    with pytest.raises(Refused, match=r"'kid' in .*there.db already"):
        await scene.move()
    assert (await scene.here.row("root")).state == "open"
    assert await scene.there.export("kid") == there


async def test_what_runs_is_waited_for_and_then_its_result_goes_along() -> None:
    scene = await scene_of_a_tree()
    pay = Invoke("c-2/invoke", "c-2", "pay", "{}", "", "unsafe")
    await begin(scene.here, "busy", pay, parent="root", purpose="child", created=7.0)
    await scene.here.claim("busy", [pay.id], scene.clock.now() + 30, holder="a worker")
    moving = asyncio.create_task(scene.move())
    while not scene.clock.sleepers:
        await asyncio.sleep(0)
    assert (await scene.here.row("root")).state == MOVING
    assert scene.servers.told == []
    result = Finished("busy", "c-2/result", scene.clock.now(), call="c-2", parts=(Text("paid"),))
    await scene.here.finish(result, pay.id)
    while not moving.done():
        scene.clock.advance(0.1)
        await asyncio.sleep(0)
    assert "busy" in await moving
    assert [one.id for one in await scene.there.inbox("busy")] == ["c-4/sleep", "e-1", "c-2/result"]
    assert await scene.there.outbox("busy") == []


async def test_what_does_not_end_in_time_keeps_the_tree_here() -> None:
    scene = await scene_of_a_tree()
    await scene.here.claim("root", ["c-1/invoke"], scene.clock.now() + 30, holder="a worker")
    with pytest.raises(Unavailable, match="c-1/invoke of root"):
        await scene.move(patience=0)
    assert [row.state for row in await scene.here.threads()] == ["open", "open"]
    [left] = await scene.here.outbox("root")
    assert left.claimed_until == scene.clock.now() + 30


async def test_a_run_that_vanished_is_unknown_there_and_not_run_again() -> None:
    scene = await scene_of_a_tree()
    pay = Invoke("c-2/invoke", "c-2", "pay", "{}", "", "unsafe")
    await begin(scene.here, "busy", pay, parent="root", purpose="child", created=7.0)
    await scene.here.claim("busy", [pay.id], scene.clock.now() + 1, holder="a worker")
    scene.clock.advance(2)
    await scene.move()
    found = [one for one in await scene.there.inbox("busy") if isinstance(one, Finished)]
    assert [(one.call, one.cause) for one in found] == [("c-2", "unknown")]
    assert await scene.there.outbox("busy") == []


async def test_who_lets_the_tree_go_stops_who_moves_it() -> None:
    class Meddling(Servers):
        async def migrate(self, server: str, session: str, destination: str, trace: str) -> None:
            await scene.stay()

    scene = await scene_of_a_tree()
    scene.servers = Meddling()
    with pytest.raises(Conflict, match="went on here"):
        await scene.move()
    assert [row.state for row in await scene.here.threads()] == ["open", "open"]
    assert await scene.there.threads() == []
    assert scene.servers.told == []


async def test_news_that_comes_while_threads_end_follows_them() -> None:
    scene = await scene_of_a_tree()
    take_in = scene.there.take_in
    late = HappenedSignal("kid", "e-2", 4.0, call="c-3", parts=(Text("late"),), handle="h")

    async def and_meanwhile(exported: Any) -> bool:
        taken: bool = await take_in(exported)
        await scene.here.put_blob("kid", "h", b"whole")
        await scene.here.post([late])
        return taken

    scene.there.take_in = and_meanwhile
    await scene.move()
    assert [one.id for one in await scene.there.inbox("kid")] == ["c-4/sleep", "e-1", "e-2"]
    assert await scene.there.get_blob("kid", "h") == b"whole"
    after = SaidSignal("root", "said/late", 5.0, parts=(Text("hello"),))
    await scene.here.post([after])
    assert await scene.here.stranded() == []


async def test_a_copy_that_never_lived_makes_room_for_a_later_one() -> None:
    scene = await scene_of_a_tree()
    commit = scene.here.commit

    async def away(change: Any) -> Any:
        if change.row.state == MOVED:
            raise Unavailable("The disk is away.")
        return await commit(change)

    async def gone(*_: Any, **__: Any) -> Any:
        raise Unavailable("The other disk is away.")

    scene.here.commit, delete_, scene.there.delete = away, scene.there.delete, gone
    with pytest.raises(Unavailable, match=r"^The disk is away"):
        await scene.move()
    assert {row.state for row in await scene.there.threads()} == {ARRIVING}
    scene.here.commit, scene.there.delete = commit, delete_
    await scene.here.post([SaidSignal("root", "said/2", 5.0, parts=(Text("more"),))])
    await scene.move()
    assert [one.id for one in await scene.there.inbox("root")] == ["c-4/sleep", "e-1", "said/2"]


async def test_an_end_that_was_written_although_it_seemed_to_fail_is_one() -> None:
    scene = await scene_of_a_tree()
    commit = scene.here.commit
    failures = iter([True])

    async def unsure(change: Any) -> Any:
        version = await commit(change)
        if change.row.state == MOVED and next(failures, False):
            raise Unavailable("No answer came.")
        return version

    scene.here.commit = unsure
    assert await scene.move() == ["root", "kid", "sum"]
    await moved(scene)


async def test_another_place_is_not_asked_for_while_one_is_on_its_way() -> None:
    scene = await scene_of_a_tree()
    await scene.here.put(MOVES, "root", b'{"to": "sqlite:///elsewhere.db"}')
    with pytest.raises(Refused, match=r"on its way to sqlite:///elsewhere\.db"):
        await scene.move()
    await scene.stay()
    await scene.move()
    assert (await scene.here.row("root")).state == MOVED


async def test_a_tree_comes_back() -> None:
    scene = await scene_of_a_tree()
    await scene.move()
    here, there = scene.places(Fate())
    back = Mover(there, here, scene.servers, scene.clock, Ids())
    assert await back.move("root", {NEW: OLD}) == ["root", "kid", "sum"]
    assert [row.state for row in await scene.here.threads()] == ["open", "open"]
    notes = [decode_message(one.body) for one in await scene.here.read("root")][-2:]
    assert [one.note.origin for one in notes if isinstance(one, Noted)] == [HERE, THERE]  # type: ignore[union-attr]
    assert await scene.here.stranded() != []
    assert await scene.there.stranded() == []
    scene.servers.told.clear()
    await scene.move()
    assert (await scene.here.row("kid")).state == MOVED


async def test_the_small_things_beside_threads_go_along() -> None:
    scene = await scene_of_a_tree()
    kept = {
        "webhooks": {"root/c-3/w": b"1", "other/c-3/w": b"1"},
        "authorizations": {"kid/c-1/authorization": b"https://id.test", "kid/old": b""},
        "progress": {"kid": b"far", "kidney": b"near"},
        "said": {"root/key": b"hash"},
        "forwards": {"root/c-3": b"http://earlier"},
        "definitions": {"d1": b"{}"},
    }
    for space, values in kept.items():
        for key, value in values.items():
            await scene.here.put(space, key, value)
    await scene.here.put("views/root", "list", b"[]")
    await scene.here.note(SliceRecord("kid", 1, definition="d1"))
    await scene.move()
    found = {space: await scene.there.entries(space) for space in kept}
    assert found == {
        "webhooks": {"root/c-3/w": b"1"},
        "authorizations": {"kid/c-1/authorization": b"https://id.test"},
        "progress": {"kid": b"far"},
        "said": {"root/key": b"hash"},
        "forwards": {},
        "definitions": {"d1": b"{}"},
    }


async def test_the_history_that_a_fork_continues_goes_along() -> None:
    scene = await scene_of_a_tree()
    await begin(scene.here, "heir", root="heir", lineage=lineage_bytes((Link("root", 3),)))
    here, there = scene.places(Fate())
    mover = Mover(here, there, scene.servers, scene.clock, Ids())
    assert await mover.move("heir", {OLD: NEW}) == ["heir"]
    root = await scene.there.row("root")
    assert (root.state, root.length) == (MOVED, 5)
    assert await scene.there.read("root") == await scene.here.read("root")
    assert await scene.there.get_blob("root", "keeps") == b"{}"
    assert await scene.there.outbox("root") == []
    with pytest.raises(Refused, match="is not moving"):
        await stay(there, "root", scene.clock, Ids())
    with pytest.raises(Refused, match="Only its history is"):
        await Mover(there, here, scene.servers, scene.clock, Ids()).move("root")
    gone = await delete(scene.there, scene.queues[1], "root")
    assert (gone.rows["messages"], gone.rows["blobs"], gone.left) == (5, 1, {})
    await begin(scene.here, "other", root="other", lineage=lineage_bytes((Link("root", 3),)))
    await mover.move("other", {OLD: NEW})
    assert await scene.move() == ["root", "kid", "sum"]
    assert (await scene.there.row("root")).state == "open"


@pytest.mark.parametrize(
    ("thread", "match"), [("nobody", "no thread 'nobody'"), ("kid", "root of 'kid' is 'root'")]
)
async def test_only_roots_move(thread: str, match: str) -> None:
    scene = await scene_of_a_tree()
    here, there = scene.places(Fate())
    with pytest.raises(Refused, match=match):
        await Mover(here, there, scene.servers, scene.clock, Ids()).move(thread, {OLD: NEW})


async def test_a_store_is_no_other_store() -> None:
    scene = await scene_of_a_tree()
    here, _ = scene.places(Fate())
    with pytest.raises(Refused, match="another store"):
        Mover(here, here, scene.servers, scene.clock, Ids())


async def test_a_row_that_was_set_aside_is_so_again() -> None:
    scene = await scene_of_a_tree()
    row = await scene.here.row("kid")
    await scene.here.postpone("kid", row.version, 3, 0.0, state="parked")
    await scene.move()
    assert (await scene.there.row("kid")).state == "parked"
    scene = await scene_of_a_tree()
    await scene.here.postpone("kid", (await scene.here.row("kid")).version, 3, 0.0, state="parked")
    scene.servers.refuses = "no"
    await fails(scene, Refused, "no")
    assert (await scene.here.row("kid")).state == "parked"


async def test_a_thread_that_never_rests_is_given_up() -> None:
    scene = await scene_of_a_tree()
    commit, tries = scene.here.commit, []

    async def lost(change: Any) -> Any:
        if change.row.state == MOVING and change.thread == "kid":
            tries.append(1)
            raise Conflict("moved on")
        return await commit(change)

    scene.here.commit = lost
    await fails(scene, Unavailable, "kid is busy")
    assert len(tries) == TRIES


async def test_a_tree_that_has_left_does_not_stay_and_arrives_later() -> None:
    scene = await scene_of_a_tree()
    commit = scene.there.commit

    async def away(change: Any) -> Any:
        if change.row.state != ARRIVING:
            raise Unavailable("The disk is away.")
        return await commit(change)

    scene.there.commit = away
    with pytest.raises(Unavailable, match="disk is away"):
        await scene.move()
    with pytest.raises(Refused, match="has left for sqlite:///there"):
        await scene.stay()
    scene.there.commit = commit
    assert await scene.move(servers={}) == ["root", "kid", "sum"]
    await moved(scene)
