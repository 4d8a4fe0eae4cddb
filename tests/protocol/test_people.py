"""What tools ask people for: choices and authorizations become signals, once each, in bounded size."""

from typing import Any

import pytest

from tests.protocol.desk import Desk, result, subscribed, waiting
from torpor.core.messages import text_of
from torpor.core.parts import OpenWait
from torpor.core.signals import Finished, RequestedSignal
from torpor.ports import AUTHORIZATIONS
from torpor.testing.clock import START, FakeClock

LOGIN = "https://id.test/authorize?state=Zk3"


@pytest.fixture
async def desk() -> Desk:
    desk = await Desk(clock=FakeClock()).open()
    await desk.thread()
    return desk


def choice(**more: Any) -> dict[str, Any]:
    """A body that asks a person."""
    return {
        "type": "user_choice",
        "group_id": "T",
        "id": "call_1",
        "prompt": "Reorder?",
        "choices": ["Once", "Always", "No"],
        "default": 2,
        "response_url": "http://127.0.0.1:8801/user_choice_response?k=1",
        **more,
    }


def oauth(**more: Any) -> dict[str, Any]:
    """A body that asks for an authorization."""
    return {"type": "oauth", "group_id": "T", "id": "call_1", "auth_url": LOGIN, **more}


async def requested(desk: Desk) -> list[RequestedSignal]:
    """What was asked; nothing else may be in the inbox."""
    inbox = await desk.inbox()
    asked = [signal for signal in inbox if isinstance(signal, RequestedSignal)]
    assert asked == inbox
    return asked


async def test_a_choice_is_asked_with_all_that_a_person_and_an_answer_need(desk: Desk) -> None:
    outcome = await desk.post(choice(expires_at="2001-09-09T02:46:40Z"))
    assert outcome.status == 200
    assert outcome.ring
    [asked] = await requested(desk)
    assert (asked.id, asked.at, asked.call, asked.kind) == ("call_1/choice", START, "call_1", "choice")
    assert (asked.prompt, asked.choices, asked.default) == ("Reorder?", ("Once", "Always", "No"), "2")
    assert asked.url == "http://127.0.0.1:8801/user_choice_response?k=1"
    assert asked.expires == START + 3_600
    assert (asked.by.kind, asked.by.verified, asked.by.key_id) == ("tool", "callback", "k1")


async def test_an_authorization_is_asked_with_its_address(desk: Desk) -> None:
    assert (await desk.post(oauth())).status == 200
    [asked] = await requested(desk)
    assert (asked.id, asked.kind) == ("call_1/authorization", "authorization")
    assert (asked.prompt, asked.choices, asked.default, asked.expires) == ("", (), "", 0.0)


async def test_the_address_of_an_authorization_is_kept_apart_until_the_result_is_there(desk: Desk) -> None:
    await desk.post(oauth())
    [asked] = await requested(desk)
    assert LOGIN not in repr(asked)
    assert await desk.store.get(AUTHORIZATIONS, f"T/{asked.url}") == LOGIN.encode()
    wait = OpenWait("T.call_1.authorization", "authorization", "call_1", "build", url=asked.url)
    await desk.becomes("T", (asked.id,), pending={"call_1": waiting()}, waits={wait.id: wait})
    assert (await desk.post(result())).status == 200
    assert await desk.store.get(AUTHORIZATIONS, f"T/{asked.url}") == b""


async def test_one_of_each_kind_a_call_without_ids_and_any_number_with_them(desk: Desk) -> None:
    for body in (choice(), choice(prompt="Again?"), oauth(), oauth()):
        assert (await desk.post(body)).status == 200
    assert [asked.id for asked in await requested(desk)] == ["call_1/choice", "call_1/authorization"]
    for body in (choice(event_id="e1"), choice(event_id="e2"), choice(event_id="e1"), oauth(event_id="e1")):
        await desk.post(body)
    for _ in range(2):
        await desk.post(choice(), headers=[("Webhook-Id", "w1")])
    assert [asked.id for asked in await requested(desk)][2:] == [
        "call_1/choice/event/e1",
        "call_1/choice/event/e2",
        "call_1/authorization/event/e1",
        "call_1/choice/webhook/w1",
    ]


async def test_apr_02_choices_of_several_calls_are_each_their_own(desk: Desk) -> None:
    await desk.becomes("T", pending={"a": waiting(), "b": waiting()})
    await desk.post(choice(id="b", response_url="https://t.test/b"), call="b")
    await desk.post(choice(id="a", response_url="https://t.test/a"), call="a")
    asked = [(one.call, one.id, one.url) for one in await requested(desk)]
    assert asked == [("b", "b/choice", "https://t.test/b"), ("a", "a/choice", "https://t.test/a")]


@pytest.mark.parametrize(
    "changes",
    [
        {"choices": []},
        {"choices": ["x"] * 101},
        {"choices": ["a", 1]},
        {"choices": None},
        {"default": 3},
        {"default": -1},
        {"default": 1.0},
        {"default": True},
        {"default": None},
        {"prompt": 3},
        {"response_url": None},
        {"response_url": "https://t.test/" + "x" * 9_000},
    ],
)
async def test_a_question_that_cannot_be_asked_settles_its_call(desk: Desk, changes: dict[str, Any]) -> None:
    assert (await desk.post(choice(**changes))).status == 400
    [settled] = await desk.inbox()
    assert isinstance(settled, Finished)
    assert settled.is_error
    assert settled.cause == "undelivered"


@pytest.mark.parametrize("url", ["http://id.test/x", "javascript:alert(1)", "", "https://x/" + "y" * 9_000])
async def test_an_address_that_nobody_should_open_settles_its_call(desk: Desk, url: str) -> None:
    assert (await desk.post(oauth(auth_url=url))).status == 400
    [settled] = await desk.results()
    assert "malformed" in text_of(settled.parts)


async def test_long_questions_are_cut_visibly(desk: Desk) -> None:
    await desk.post(choice(prompt="p" * 9_000, choices=["c" * 2_000, "No"], default=1))
    [asked] = await requested(desk)
    assert asked.prompt == "p" * 8_000 + "… [cut, 9,000 characters]"
    assert asked.choices == ("c" * 1_000 + "… [cut, 2,000 characters]", "No")


@pytest.mark.parametrize("expires", ["soon", "", 12, None, "2001-09-09T02:46:40", "99999-01-01T00:00:00Z"])
async def test_an_end_that_cannot_be_read_counts_as_none(desk: Desk, expires: object) -> None:
    assert (await desk.post(choice(expires_at=expires))).status == 200
    assert (await requested(desk))[0].expires == 0.0


async def test_nobody_is_asked_for_a_call_that_is_over(desk: Desk) -> None:
    await desk.post(choice())
    [asked] = await requested(desk)
    await desk.becomes("T", (asked.id,))
    assert (await desk.post(choice())).status == 200, "a repeat of what was taken"
    assert (await desk.post(oauth())).status == 410
    await desk.becomes("T", subscriptions={"call_1": subscribed()})
    assert (await desk.post(oauth())).status == 400
    assert not await desk.inbox()
