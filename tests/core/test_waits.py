"""Waits of people: choices, authorizations, approvals; each settled once, in any order, by whatever comes."""

from itertools import permutations
from typing import Any

import msgspec
import pytest

from tests.core.playing import SERVER, THREAD, TOOLS, Played, call, tool
from torpor.core import consent
from torpor.core.answer import Inline
from torpor.core.definition import Approvals
from torpor.core.effects import Cancel, Choose, Invoke
from torpor.core.messages import Answered, By, Noted, Requested, Turn, text_of
from torpor.core.signals import AnsweredSignal, AnySignal, Due, RequestedSignal
from torpor.core.waits import MOST

ASKED = {
    spec.name: spec
    for spec in (
        tool("remove", server=SERVER, repeat="keyed", destructive=True),
        tool("pay", needs_approval=True),
        tool("peek", repeat="safe", inline=True, needs_approval=True),
    )
}


def played(seconds: float = 0.0, default: str = "deny", policy: str = "destructive", **fields: Any) -> Played:
    """A thread whose agent is asked something."""
    found = Played(approvals=Approvals(policy, seconds, default), **fields)
    found.definition = msgspec.structs.replace(found.definition, tools=TOOLS | ASKED)
    found.absorb(found.text("go"))
    return found


def change(found: Played, name: str, **fields: object) -> None:
    """Another definition of a tool is deployed."""
    tools = found.definition.tools
    spec = msgspec.structs.replace(tools[name], **fields)
    found.definition = msgspec.structs.replace(found.definition, tools={**tools, name: spec})


def answer(found: Played, wait: str, value: str, comment: str = "", by: By = By("person")) -> AnsweredSignal:
    return AnsweredSignal(
        THREAD, found._id("answer"), found.coming, by, wait=wait, value=value, comment=comment
    )


def choice(found: Played, id: str, **fields: Any) -> RequestedSignal:
    told: dict[str, Any] = {
        "prompt": "Which?",
        "choices": ("red", "green"),
        "default": "1",
        "url": f"{SERVER}/choices",
    }
    return RequestedSignal(
        THREAD, found._id(f"{id}/choice"), found.coming, By("tool"), call=id, **{**told, **fields}
    )


def authorization(found: Played, id: str, **fields: Any) -> RequestedSignal:
    return RequestedSignal(
        THREAD, found._id(f"{id}/authorization"), found.coming, By("tool"),
        call=id, kind="authorization", url="https://login.test/x", **fields,
    )  # fmt: skip


def form(found: Played, id: str, **fields: Any) -> RequestedSignal:
    return RequestedSignal(
        THREAD, found._id(f"{id}/form"), found.coming, By("tool"),
        call=id, kind="form", prompt="Where to?", schema='{"type":"object"}', url="mcp:x/1", **fields,
    )  # fmt: skip


def due(found: Played, wait: str) -> Due:
    signal = found.timers[f"{wait}/wait"]
    assert isinstance(signal, Due)
    found.now = max(found.now, signal.due - 1.0)
    return signal


def outcomes(found: Played) -> dict[str, str]:
    """How the waits of people that the last slice saw settled ended."""
    assert found.last is not None
    return {one.id: one.outcome for one in found.last.settled if one.id.startswith(THREAD)}


def told(found: Played) -> str:
    return "\n".join(text_of(result.parts) for result in found.last_results())


def sent(found: Played) -> list[Invoke]:
    return [effect for effect in found.effects if isinstance(effect, Invoke)]


# -------------------------------------------------------------- approvals


def test_apr_11_a_call_that_needs_approval_is_not_sent() -> None:
    found = played()
    [a] = found.reply(call("remove", '{"what": "all"}'))
    assert found.effects == []
    assert found.why == "waiting"
    [wait] = found.head.waits.values()
    assert (wait.id, wait.kind, wait.call, wait.name) == (f"{THREAD}.{a}.approval", "approval", a, "remove")
    assert (wait.arguments, wait.server, wait.deadline, wait.default) == ('{"what": "all"}', SERVER, 0.0, "")
    assert found.alarms == {}
    [part] = [part for turn in found.all(Turn) for part in turn.parts]
    assert (part.approval, part.held) == (True, True)  # type: ignore[union-attr]
    found.absorb(found.nudge())
    assert found.effects == []


def test_what_is_approved_goes_out_as_it_was_shown() -> None:
    """APR-10: also where it is too long to be shown whole."""
    found = played()
    arguments = msgspec.json.encode({"what": "x" * 5_000}).decode()
    [a] = found.reply(call("remove", arguments))
    [wait] = found.head.waits.values()
    assert len(wait.arguments) < 3_000
    found.absorb(answer(found, wait.id, "approve", by=By("person", "ada")))
    [invoke] = sent(found)
    assert (invoke.call, invoke.arguments, invoke.digest) == (a, arguments, wait.digest)
    assert invoke.digest == consent.digest(found.definition.approvals, ASKED["remove"], arguments)
    assert outcomes(found) == {wait.id: "approved"}
    [note] = found.all(Answered)
    assert (note.outcome, note.value, note.by.id) == ("approved", "approve", "ada")
    assert found.why == "waiting"
    found.absorb(found.result(a))
    assert found.why == "complete"


def test_a_denied_call_is_an_error_with_who_and_why() -> None:
    found = played()
    [a] = found.reply(call("pay"))
    [id] = found.head.waits
    found.absorb(answer(found, id, "deny", "Too much.", By("person", "ada")))
    assert told(found) == "Error: pay was not run: ada denied it. What they say: Too much."
    assert found.results() == {a: "denied"}
    assert found.last_results()[0].is_error
    assert found.effects == []
    assert outcomes(found) == {id: "denied"}
    assert found.why == "complete"


def test_a_denial_without_a_name_or_a_reason() -> None:
    found = played()
    found.reply(call("pay"))
    [id] = found.head.waits
    found.absorb(answer(found, id, "deny"))
    assert told(found) == "Error: pay was not run: a person denied it."


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        ("never", []),
        ("destructive", ["remove", "pay", "peek"]),
        ("always", ["remove", "pay", "peek", "read", "remote"]),
    ],
)
def test_policies(policy: str, asked: list[str]) -> None:
    """``always``: all that are sent out; what runs within the slice, and built-ins, only if marked."""
    found = played(policy=policy)
    found.reply(*(call(name) for name in ("remove", "pay", "peek", "read", "remote", "quick")))
    assert [wait.name for wait in found.head.waits.values()] == asked
    found = played(policy=policy)
    found.reply(call("sleep", '{"seconds": 5}'))
    assert not found.head.waits


def test_what_needs_approval_is_not_run_within_the_slice() -> None:
    found = played()
    ran: list[Inline] = []
    [a] = found.reply(call("peek"), inline=ran.append)  # type: ignore[arg-type]
    assert not ran
    [id] = found.head.waits
    found.absorb(answer(found, id, "approve"))
    assert [(invoke.call, invoke.repeat) for invoke in sent(found)] == [(a, "safe")]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_apr_01_apr_02_answers_find_their_calls_in_any_order(order: tuple[int, ...]) -> None:
    found = played()
    calls = found.reply(call("pay", '{"n": 0}'), call("pay", '{"n": 1}'), call("pay", '{"n": 2}'))
    waits = [f"{THREAD}.{id}.approval" for id in calls]
    assert list(found.head.waits) == waits
    values = ["approve", "deny", "approve"]
    for place in order:
        found.absorb(answer(found, waits[place], values[place], f"c{place}"))
    assert sorted(invoke.arguments for invoke in sent(found)) == ['{"n": 0}', '{"n": 2}']
    assert found.results() == {calls[1]: "denied"}
    assert not found.head.waits


def test_all_at_once_and_each_counts_once() -> None:
    """APR-05: the first answer counts; a later one is told so."""
    found = played()
    found.reply(call("pay"))
    [id] = found.head.waits
    first, second = answer(found, id, "approve"), answer(found, id, "deny")
    found.absorb(first, second)
    assert found.outcomes[first.id] == "absorbed"
    assert found.outcomes[second.id] == "settled already"
    assert len(sent(found)) == 1
    third = answer(found, id, "approve")
    found.absorb(third)
    assert found.outcomes[third.id] == "settled already"
    assert len(sent(found)) == 1


def test_answers_to_nothing_and_with_nothing() -> None:
    found = played()
    found.reply(call("pay"))
    [id] = found.head.waits
    other, wrong = answer(found, "elsewhere.a.approval", "approve"), answer(found, id, "dismiss")
    found.absorb(other, wrong)
    assert found.outcomes[other.id] == "no such wait"
    assert found.outcomes[wrong.id] == "no such answer"
    assert list(found.head.waits) == [id]


def test_new_words_are_answered_beside_an_approval() -> None:
    found = played()
    [a] = found.reply(call("pay"))
    [id] = found.head.waits
    found.absorb(found.text("are you there?"))
    assert found.why == "complete"
    assert found.shown()[0] == "results: It waits for a person. Its result will come as an event."
    found.reply("Yes.")
    assert list(found.head.waits) == [id]
    found.absorb(answer(found, id, "approve"))
    assert found.invoked == [a]
    found.absorb(found.result(a, "paid"))
    assert found.shown() == ["result of pay: paid"]


def test_a_late_denial_is_news() -> None:
    found = played()
    found.reply(call("pay"))
    [id] = found.head.waits
    found.absorb(found.text("hm"))
    found.reply(call("sleep", '{"seconds": 50}'))
    found.absorb(answer(found, id, "deny"))
    assert found.why == "complete"
    assert "a person denied it" in found.shown()[-1]
    assert "by the end of the approval for pay" in found.shown()[0]


@pytest.mark.parametrize("how", ["interrupt", "stop", "close"])
def test_apr_07_what_ends_the_call_ends_the_approval(how: str) -> None:
    found = played()
    [a] = found.reply(call("pay"))
    [id] = found.head.waits
    signal: AnySignal = found.text("no", "interrupt") if how == "interrupt" else getattr(found, how)()
    found.absorb(signal)
    cause = "interrupted" if how == "interrupt" else "stopped"
    assert outcomes(found) == {id: cause}
    assert found.results() == {a: cause}
    assert not found.head.waits
    assert not [effect for effect in found.effects if isinstance(effect, Cancel | Invoke)]
    late = answer(found, id, "approve")
    found.absorb(late)
    assert found.outcomes[late.id] == ("closed" if how == "close" else "settled already")
    assert not sent(found)
    if how != "close":
        found.absorb(found.text("hello"))
        assert found.why == "complete"


def test_approved_in_a_parked_thread() -> None:
    found = played()
    [a] = found.reply(call("pay"))
    found.park(found.text("poison"))
    [id] = found.head.waits
    found.absorb(answer(found, id, "approve"))
    assert found.invoked == [a]
    found.absorb(found.result(a))
    assert found.why == "parked"
    found.absorb(found.nudge())
    assert found.why == "complete"


# ------------------------------------------------------------- time passes


def test_apr_08_nobody_answers_and_the_default_is_to_deny() -> None:
    found = played(seconds=86_400.0)
    [a] = found.reply(call("pay"))
    [wait] = found.head.waits.values()
    assert (wait.default, wait.deadline) == ("deny", found.now + 86_400.0)
    found.absorb(due(found, wait.id))
    assert told(found) == (
        "Error: pay was not run: nobody approved it within the time for that. No person has denied it."
    )
    assert found.results() == {a: "expired"}
    assert outcomes(found) == {wait.id: "expired"}
    assert found.why == "complete"
    assert not sent(found)


def test_nobody_answers_and_the_default_is_to_approve() -> None:
    found = played(seconds=60.0, default="approve")
    found.reply(call("pay"))
    [wait] = found.head.waits.values()
    found.absorb(due(found, wait.id))
    assert [invoke.digest for invoke in sent(found)] == [wait.digest]
    assert outcomes(found) == {wait.id: "expired"}
    [note] = found.all(Answered)
    assert (note.outcome, note.value, note.by.kind) == ("expired", "approve", "timer")


def test_an_answer_beats_the_timer_and_drops_it() -> None:
    found = played(seconds=60.0)
    found.reply(call("pay"))
    [id] = found.head.waits
    timer = due(found, id)
    found.absorb(timer, answer(found, id, "approve"))
    assert found.outcomes[timer.id] == "settled already"
    assert len(sent(found)) == 1
    found = played(seconds=60.0)
    found.reply(call("pay"))
    [id] = found.head.waits
    found.absorb(answer(found, id, "deny"))
    assert found.alarms == {}


# ----------------------------------------------------------------- stale


@pytest.mark.parametrize(
    "fields",
    [
        {"schema": {"type": "object", "properties": {}}},
        {"description": "Other."},
        {"server": ""},
        {"destructive": False},
    ],
)
def test_a_changed_tool_is_not_what_was_approved(fields: dict[str, object]) -> None:
    found = played()
    [a] = found.reply(call("remove"))
    [id] = found.head.waits
    change(found, "remove", **fields)
    found.absorb(answer(found, id, "approve"))
    assert not sent(found)
    assert found.results() == {a: "stale"}
    assert outcomes(found) == {id: "stale"}
    assert told(found) == (
        "Error: remove was not run, because what was approved is not what would run: the tool, the call or "
        "the policy has changed. Call it again, and a person is asked again."
    )
    assert found.why == "complete"


def test_a_tool_that_is_gone_is_not_run() -> None:
    found = played()
    [a] = found.reply(call("pay"))
    [id] = found.head.waits
    found.definition = msgspec.structs.replace(found.definition, tools=TOOLS)
    found.absorb(answer(found, id, "approve"))
    assert found.results() == {a: "stale"}
    assert "the tool is not there any more" in told(found)


def test_another_policy_is_not_what_was_approved() -> None:
    found = played(seconds=60.0, default="approve")
    [a] = found.reply(call("pay"))
    [id] = found.head.waits
    found.definition = msgspec.structs.replace(found.definition, approvals=Approvals("always"))
    found.absorb(due(found, id))
    assert found.results() == {a: "stale"}
    assert outcomes(found) == {id: "stale"}


def test_what_was_approved_waits_for_a_place_and_is_looked_at_again() -> None:
    found = played(parallel=1)
    read, pay, other = found.reply(call("read"), call("pay"), call("write"))
    [id] = found.head.waits
    found.absorb(answer(found, id, "approve"))
    assert found.invoked == [read]
    change(found, "pay", description="Other.")
    found.absorb(found.result(read))
    assert found.results() == {read: "done", pay: "stale"}
    assert found.invoked == [read, other]
    assert [invoke.digest for invoke in sent(found)] == ["", ""]


def test_a_place_is_not_kept_for_what_is_not_approved_yet() -> None:
    found = played(parallel=1)
    pay, read, other = found.reply(call("pay"), call("read"), call("write"))
    assert found.invoked == [read]
    found.absorb(found.result(read))
    assert found.invoked == [read, other]
    [id] = found.head.waits
    found.absorb(answer(found, id, "approve"))
    assert found.invoked == [read, other]
    found.absorb(found.result(other))
    assert found.invoked == [read, other, pay]


def test_a_held_call_whose_tool_needs_approval_by_now() -> None:
    found = played(parallel=1)
    read, write = found.reply(call("read"), call("write"))
    change(found, "write", needs_approval=True)
    found.absorb(found.result(read))
    assert found.results() == {read: "done", write: "stale"}
    assert "the tool needs a person's approval by now" in told(found)
    assert found.why == "complete"


def test_a_held_call_of_a_tool_that_is_gone_goes_out() -> None:
    """Whoever it is sent to says so."""
    found = played(parallel=1)
    read, write = found.reply(call("read"), call("write"))
    tools = {name: spec for name, spec in found.definition.tools.items() if name != "write"}
    found.definition = msgspec.structs.replace(found.definition, tools=tools)
    found.absorb(found.result(read))
    assert found.invoked == [read, write]


# ---------------------------------------------------------------- choices


def remote(**fields: Any) -> tuple[Played, str]:
    found = played(**fields)
    [a] = found.reply(call("remote"))
    return found, a


def chosen(found: Played) -> list[tuple[str, int]]:
    return [(effect.id, effect.selected) for effect in found.effects if isinstance(effect, Choose)]


def test_a_choice_is_told_once_and_the_call_goes_on() -> None:
    found, a = remote()
    found.absorb(choice(found, a))
    id = f"{THREAD}.{a}.choice"
    [wait] = found.all(Requested)
    assert wait.wait == found.head.waits[id]
    assert (wait.wait.prompt, wait.wait.choices, wait.wait.default) == ("Which?", ("red", "green"), "1")
    assert found.why == "waiting"
    found.absorb(answer(found, id, "0", "I like red."))
    assert chosen(found) == [(f"{id}/choice", 0)]
    [told] = [effect for effect in found.effects if isinstance(effect, Choose)]
    assert (told.call, told.server, told.url) == (a, SERVER, f"{SERVER}/choices")
    assert outcomes(found) == {id: "chosen"}
    assert (found.all(Answered)[0].value, found.all(Answered)[0].comment) == ("0", "I like red.")
    assert found.why == "waiting"
    found.absorb(found.result(a, "red it is"))
    assert found.why == "complete"
    assert chosen(found) == [(f"{id}/choice", 0)]


@pytest.mark.parametrize("value", ["2", "-1", "red", "", "approve", "done", "²", "0" * 5])
def test_what_is_no_index_chooses_nothing(value: str) -> None:
    found, a = remote()
    found.absorb(choice(found, a))
    [id] = found.head.waits
    wrong = answer(found, id, value)
    found.absorb(wrong)
    assert found.outcomes[wrong.id] == "no such answer"
    assert not chosen(found)
    assert list(found.head.waits) == [id]


def test_a_dismissed_choice_is_the_default() -> None:
    found, a = remote()
    found.absorb(choice(found, a))
    [id] = found.head.waits
    found.absorb(answer(found, id, "dismiss"))
    assert chosen(found) == [(f"{id}/choice", 1)]
    assert outcomes(found) == {id: "dismissed"}


def test_a_choice_that_nobody_makes_is_the_default() -> None:
    found, a = remote()
    found.absorb(choice(found, a, expires=found.now + 60.0))
    [id] = found.head.waits
    timer = due(found, id)
    found.absorb(timer)
    assert chosen(found) == [(f"{id}/choice", 1)]
    assert outcomes(found) == {id: "expired"}
    found.absorb(msgspec.structs.replace(timer, id="again"))
    assert found.outcomes["again"] == "settled already"
    assert len(chosen(found)) == 1


def test_a_second_choice_of_a_call_has_an_id_of_its_own() -> None:
    """What was answered before does not answer it."""
    found, a = remote()
    first, second = f"{THREAD}.{a}.choice", f"{THREAD}.{a}.choice.2"
    found.absorb(choice(found, a))
    found.absorb(answer(found, first, "0"))
    found.absorb(choice(found, a), found.text("hm"))
    assert list(found.head.waits) == [second]
    late = answer(found, first, "0")
    found.absorb(late)
    assert found.outcomes[late.id] == "settled already"
    found.absorb(authorization(found, a), choice(found, a))
    assert list(found.head.waits) == [second, f"{THREAD}.{a}.authorization", f"{THREAD}.{a}.choice.3"]
    found.absorb(answer(found, second, "1"))
    assert chosen(found) == [(f"{first}/choice", 0), (f"{second}/choice", 1)]


@pytest.mark.parametrize("how", ["interrupt", "stop", "close", "deadline"])
def test_the_notice_goes_before_the_default(how: str) -> None:
    """IX-17: E4 first, then E7."""
    found = played()
    [a] = found.reply(call("bounded"))
    found.absorb(choice(found, a))
    [id] = found.head.waits
    before = len(found.effects)
    signal: AnySignal = found.text("no", "interrupt") if how == "interrupt" else found.stop()
    if how == "deadline":
        signal = found.timer(a, "deadline")
    found.absorb(found.close() if how == "close" else signal)
    cancel, choose = [effect for effect in found.effects[before:] if isinstance(effect, Cancel | Choose)]
    assert isinstance(cancel, Cancel)
    assert isinstance(choose, Choose)
    assert (cancel.call, choose.call, choose.selected) == (a, a, 1)
    assert list(outcomes(found)) == [id]


def test_a_result_settles_what_its_tool_asked() -> None:
    found, a = remote()
    found.absorb(choice(found, a, expires=found.now + 60.0), authorization(found, a))
    assert len(found.head.waits) == 2
    found.absorb(found.result(a))
    assert set(outcomes(found).values()) == {"settled"}
    assert not found.head.waits
    assert found.alarms == {}
    assert not chosen(found)


def test_asked_for_a_call_that_is_not_open() -> None:
    found, a = remote()
    unknown = choice(found, "nothing")
    found.absorb(unknown, found.result(a, cause="unknown"))
    late = choice(found, a)
    found.absorb(late)
    assert found.outcomes[unknown.id] == found.outcomes[late.id] == "no such call"
    assert not found.head.waits


def test_a_call_may_ask_so_much_at_once() -> None:
    found, a = remote()
    asked = [choice(found, a) for _ in range(MOST + 1)]
    found.absorb(*asked)
    assert [found.outcomes[one.id] for one in asked] == ["absorbed"] * MOST + ["too many questions"]
    assert len(found.head.waits) == MOST


# ---------------------------------------------------------- authorizations


def test_an_authorized_call_goes_on_by_itself() -> None:
    found, a = remote()
    found.absorb(authorization(found, a))
    [wait] = found.head.waits.values()
    assert (wait.id, wait.url) == (f"{THREAD}.{a}.authorization", "https://login.test/x")
    before = len(found.effects)
    found.absorb(answer(found, wait.id, "done"))
    assert len(found.effects) == before
    assert outcomes(found) == {wait.id: "authorized"}
    assert found.why == "waiting"
    found.absorb(found.result(a))
    assert found.why == "complete"


def test_an_authorization_that_a_person_does_not_want() -> None:
    found, a = remote()
    found.absorb(authorization(found, a))
    [id] = found.head.waits
    found.absorb(answer(found, id, "dismiss"))
    assert found.cancelled == [a]
    assert found.results() == {a: "dismissed"}
    assert told(found) == "Error: remote was given up: a person did not want to authorize it."
    assert outcomes(found) == {id: "dismissed"}


def test_an_authorization_that_nobody_gives() -> None:
    found, a = remote()
    found.absorb(authorization(found, a, expires=found.now + 60.0))
    [id] = found.head.waits
    found.absorb(due(found, id))
    assert found.cancelled == [a]
    assert told(found) == "Error: remote was given up: nobody authorized it in time."
    assert found.results() == {a: "expired"}


def test_apr_17_each_answer_is_the_same_work() -> None:
    """Ten rounds of asking and answering: ten completions more, and no slice does more than the first."""
    found = played()
    sizes = set()
    for _ in range(10):
        found.reply(call("pay"))
        [id] = found.head.waits
        found.absorb(answer(found, id, "deny", "Revise."))
        assert found.last is not None
        sizes.add((len(found.last.messages), len(found.last.effects), len(found.last.settled)))
    assert len(sizes) == 1
    assert len(found.requests) == 10
    assert sum(isinstance(one, Noted) and isinstance(one.note, Answered) for one in found.messages) == 10


def choices(found: Played) -> list[Choose]:
    return [effect for effect in found.effects if isinstance(effect, Choose)]


# ------------------------------------------------------------------ forms


@pytest.mark.parametrize(
    ("value", "outcome"),
    [('{"city": "Riga"}', "filled"), ("{}", "filled"), ("decline", "declined"), ("dismiss", "dismissed")],
)
def test_what_is_filled_in_is_told_to_the_tool(value: str, outcome: str) -> None:
    found, a = remote()
    found.absorb(form(found, a))
    [wait] = found.head.waits.values()
    assert (wait.id, wait.kind, wait.schema) == (f"{THREAD}.{a}.form", "form", '{"type":"object"}')
    found.absorb(answer(found, wait.id, value))
    assert choices(found) == [Choose(f"{wait.id}/choice", a, SERVER, "mcp:x/1", 0, value)]
    assert outcomes(found) == {wait.id: outcome}
    [note] = found.all(Answered)
    assert (note.outcome, note.value) == (outcome, value)
    assert found.head.waits == {}
    assert a in found.head.pending


@pytest.mark.parametrize("value", ["", "0", "[1]", "done", "approve"])
def test_what_is_no_form_is_no_answer_to_one(value: str) -> None:
    found, a = remote()
    found.absorb(form(found, a))
    [id] = found.head.waits
    found.absorb(answer(found, id, value))
    assert list(found.head.waits) == [id]
    assert choices(found) == []


def test_a_form_that_nobody_fills_in_is_put_away_in_time() -> None:
    found, a = remote()
    found.absorb(form(found, a, expires=found.now + 60.0))
    [wait] = found.head.waits.values()
    found.absorb(due(found, wait.id))
    assert choices(found) == [Choose(f"{wait.id}/choice", a, SERVER, "mcp:x/1", 0, "dismiss")]
    assert outcomes(found) == {wait.id: "expired"}


@pytest.mark.parametrize("told", [True, False])
def test_a_tool_that_wants_to_be_told_of_its_authorization_is(told: bool) -> None:
    found, a = remote()
    found.absorb(authorization(found, a, told=told))
    [wait] = found.head.waits.values()
    found.absorb(answer(found, wait.id, "done"))
    expected = [Choose(f"{wait.id}/choice", a, SERVER, "https://login.test/x", 0, "done")]
    assert choices(found) == (expected if told else [])
    assert outcomes(found) == {wait.id: "authorized"}
