import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.protocol.desk import Desk, event, result, subscribed, waiting
from torpor.clock import SystemClock
from torpor.core.codec import SHAPE
from torpor.core.errors import Broken, Unavailable
from torpor.core.messages import Text
from torpor.core.signals import AnySignal
from torpor.ports import Posted, Row
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import Database, SqliteStore
from torpor.tools.callbacks import Callbacks


@pytest.fixture
async def desk() -> Desk:
    desk = await Desk().open()
    await desk.thread()
    return desk


async def test_a_bad_token_is_403_without_effect(desk: Desk) -> None:
    body = json.dumps(result()).encode()
    good = desk.keys.mint("T", "call_1")
    for token in ("", "x", good[:-1], good + "é", desk.keys.mint("T", "call_1", "ticket")):
        outcome = await desk.callbacks.receive(token, body)
        assert (outcome.status, outcome.ring) == (403, None)
        assert (await desk.callbacks.admits(token) or outcome).status == 403
        assert (await desk.callbacks.too_large(token)).status == 403
    assert await desk.callbacks.admits(good) is None
    assert not await desk.inbox()


async def test_a_token_for_a_thread_that_is_gone_is_404(desk: Desk) -> None:
    outcome = await desk.post(result(group_id="gone"), thread="gone")
    assert outcome.status == 404
    assert await desk.store.row("gone") is None


async def test_a_result_counts_once_however_often_it_comes(desk: Desk) -> None:
    outcomes = [await desk.post(result()) for _ in range(3)]
    assert [outcome.status for outcome in outcomes] == [200, 200, 200]
    assert all(outcome.ring for outcome in outcomes)
    assert len(await desk.results()) == 1


async def test_after_its_call_is_settled_a_repeat_is_200_and_anything_else_410(desk: Desk) -> None:
    await desk.post(result())
    [settled] = await desk.results()
    await desk.becomes("T", (settled.id,))
    assert (await desk.post(result())).status == 200
    assert (await desk.post(result("another"))).status == 410
    assert (await desk.post(event())).status == 410
    assert (await desk.post(event(event_id="e1"))).status == 410
    oauth = {"type": "oauth", "group_id": "T", "id": "call_1", "auth_url": "https://id.test/x"}
    assert (await desk.post(oauth)).status == 410
    assert not await desk.inbox()


async def test_a_call_that_never_was_is_410(desk: Desk) -> None:
    assert (await desk.post(result(id="call_9"), call="call_9")).status == 410
    assert not await desk.inbox()


async def test_a_result_for_a_detached_or_given_up_call_is_taken(desk: Desk) -> None:
    await desk.becomes("T", detached={"call_1": waiting(), "call_2": waiting(given_up="interrupted")})
    assert (await desk.post(result())).status == 200
    assert (await desk.post(result(id="call_2"), call="call_2")).status == 200
    assert [settled.call for settled in await desk.results()] == ["call_1", "call_2"]


async def test_events_are_taken_while_the_subscription_is_open_and_then_410(desk: Desk) -> None:
    await desk.becomes("T", subscriptions={"call_1": subscribed()})
    assert (await desk.post(event("one", event_id="e1"))).status == 200
    [first] = await desk.events()
    await desk.becomes("T", (first.id,))
    assert (await desk.post(event("two", event_id="e2"))).status == 410
    assert (await desk.post(event("one", event_id="e1"))).status == 200
    assert not await desk.inbox()


async def test_an_event_may_come_before_the_result_of_its_call(desk: Desk) -> None:
    assert (await desk.post(event(event_id="e1"))).status == 200
    assert (await desk.post(result(subscription=True))).status == 200
    assert len(await desk.inbox()) == 2


async def test_events_without_identity_are_each_new_and_with_one_the_same(desk: Desk) -> None:
    bodies = [event(), event(), event(event_id="e1"), event(event_id="e1")]
    assert [(await desk.post(body)).status for body in bodies] == [200] * 4
    assert [happened.event_id for happened in await desk.events()] == ["", "", "e1"]


async def test_a_webhook_id_identifies_an_event_that_has_no_id_of_its_own(desk: Desk) -> None:
    for _ in range(2):
        await desk.post(event(), headers=[("webhook-id", "w1")])
    await desk.post(event(event_id="e1"), headers=[("webhook-id", "w2")])
    await desk.post(event(event_id="e1"), headers=[("webhook-id", "w3")])
    assert [happened.event_id for happened in await desk.events()] == ["w1", "e1"]


async def test_a_natural_key_makes_events_with_different_ids_one(desk: Desk) -> None:
    for given in ("A", "B"):
        await desk.post(event("hi", event_id=given, natural_key="msg:171.5"))
    await desk.post(event("hi", event_id="C"))
    assert [happened.event_id for happened in await desk.events()] == ["A", "C"]


async def test_a_closed_thread_takes_nothing_more(desk: Desk) -> None:
    await desk.post(result())
    [settled] = await desk.results()
    await desk.becomes("T", (settled.id,), state="closed", subscriptions={"call_1": subscribed()})
    assert (await desk.post(event())).status == 410
    assert (await desk.post(result())).status == 200


async def test_tokens_of_an_old_key_work_until_it_is_retired(desk: Desk) -> None:
    token = desk.keys.mint("T", "call_1")
    await desk.keys.rotate()
    body = json.dumps(result()).encode()
    assert (await desk.callbacks.receive(token, body)).status == 200
    assert (await desk.results())[0].by.key_id == "k1"
    await desk.keys.retire("k1")
    assert (await desk.callbacks.receive(token, body)).status == 403


async def test_a_body_from_another_thread_of_the_same_call_id_stays_out(desk: Desk) -> None:
    await desk.thread("U")
    assert (await desk.post(result(group_id="U"))).status == 403
    assert not await desk.inbox("U")
    assert (await desk.post(result(group_id="U"), thread="U")).status == 200
    assert not await desk.inbox("T")


class Failing(MemoryStore):
    """A store of which some verbs fail."""

    failing: frozenset[str] = frozenset()
    error: Exception = Unavailable("disk full", retry_after=9.0)

    async def row(self, thread: str) -> Row | None:
        self.check("row")
        return await super().row(thread)

    async def post(self, signals: Any) -> list[Posted]:
        self.check("post")
        return await super().post(signals)

    async def put_blob(self, thread: str, hash: str, body: bytes) -> None:
        self.check("put_blob")
        await super().put_blob(thread, hash, body)

    async def entries(self, space: str) -> dict[str, bytes]:
        self.check("entries")
        return await super().entries(space)

    def check(self, verb: str) -> None:
        if verb in self.failing:
            raise self.error


@pytest.fixture
async def failing() -> Desk:
    desk = await Desk(store=Failing(SystemClock())).open()
    await desk.thread()
    return desk


@pytest.mark.parametrize("verb", ["row", "post", "put_blob"])
@pytest.mark.parametrize(
    ("error", "wait"),
    [(Unavailable("disk full", retry_after=9.0), 9.0), (Unavailable("busy"), 5.0), (Broken("x"), 5.0)],
)
async def test_what_could_not_be_stored_is_503_and_comes_again(
    failing: Desk, verb: str, error: Exception, wait: float
) -> None:
    store = failing.store
    assert isinstance(store, Failing)
    store.failing, store.error = frozenset({verb}), error
    body = result("x" * 20_000)
    outcome = await failing.post(body)
    assert (outcome.status, outcome.retry_after, outcome.ring) == (503, wait, None)
    assert "disk" not in outcome.text
    store.failing = frozenset()
    assert not await failing.inbox()
    assert (await failing.post(body)).status == 200
    assert len(await failing.results()) == 1


async def test_a_store_that_cannot_give_its_keys_is_503(failing: Desk) -> None:
    store = failing.store
    assert isinstance(store, Failing)
    token = failing.keys.mint("T", "call_1")
    fresh = Callbacks(store, store, type(failing.keys)(store), failing.callbacks._clock)
    store.failing = frozenset({"entries"})
    assert (await fresh.receive(token, b"{}")).status == 503
    refused = await fresh.admits(token)
    assert refused is not None
    assert refused.status == 503


async def test_a_head_that_this_release_cannot_read_does_not_turn_results_away(desk: Desk) -> None:
    changes: list[dict[str, Any]] = [{"shape": SHAPE + 1}, {"head": b"\xc1"}, {"head": b"\x81\xa1x\x01"}]
    for number, change in enumerate(changes):
        name = f"N{number}"
        row = await desk.store.row("T")
        assert row is not None
        await desk.store.create(msgspec.structs.replace(row, thread=name, **change))
        assert (await desk.post(result(group_id=name), thread=name)).status == 200
        assert len(await desk.results(name)) == 1


async def test_too_many_at_once_are_told_to_come_again(failing: Desk) -> None:
    gate = asyncio.Event()

    class Slow(Failing):
        async def post(self, signals: Any) -> list[Posted]:
            await gate.wait()
            return await super().post(signals)

    desk = await Desk({"at_once": 2}, Slow(SystemClock())).open()
    await desk.thread()
    under_way = [asyncio.create_task(desk.post(event(str(number)))) for number in range(2)]
    await asyncio.sleep(0)
    outcome = await desk.post(event("third"))
    assert (outcome.status, outcome.retry_after) == (503, 5.0)
    gate.set()
    assert [done.status for done in await asyncio.gather(*under_way)] == [200, 200]
    assert (await desk.post(event("third"))).status == 200


async def test_200_is_answered_only_once_the_signal_is_stored() -> None:
    order: list[str] = []

    class Watched(MemoryStore):
        async def post(self, signals: "list[AnySignal]") -> list[Posted]:  # type: ignore[override]
            await asyncio.sleep(0)
            posted = await super().post(signals)
            order.append("stored")
            return posted

    desk = await Desk(store=Watched(SystemClock())).open()
    await desk.thread()
    assert (await desk.post(result())).status == 200
    order.append("answered")
    assert order == ["stored", "answered"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_thousand_callbacks_posted_twice_at_once_are_a_thousand_results(
    kind: str, tmp_path: Path
) -> None:
    clock = SystemClock()
    database = f"sqlite:///{tmp_path}/t.db"
    store = MemoryStore(clock) if kind == "memory" else SqliteStore(Database.open(database, clock=clock))
    desk = await Desk(store=store).open()
    names = [f"t{number}" for number in range(1_000)]
    await asyncio.gather(*(desk.thread(name) for name in names))
    posts = [desk.post(result(f"of {name}", group_id=name), thread=name) for name in names for _ in range(2)]
    outcomes = await asyncio.gather(*posts)
    assert {outcome.status for outcome in outcomes} == {200}
    for name in names:
        [settled] = await desk.results(name)
        assert settled.parts == (Text(f"of {name}"),)
    await store.close()


async def test_logs_name_call_and_thread_but_neither_token_nor_body(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "torpor")
    await desk.post(result("hush", group_id="U"))
    await desk.post(b'{"hush": ')
    assert "'call_1' of 'T': 403" in caplog.text
    assert "'call_1' of 'T': 400" in caplog.text
    assert "hush" not in caplog.text
    assert desk.keys.mint("T", "call_1") not in caplog.text
