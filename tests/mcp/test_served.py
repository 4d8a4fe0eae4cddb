"""What is served to MCP clients, as far as it needs no protocol: names, shapes, tickets, forms, reach."""

import json
from typing import Any

import pytest

from torpor import Agent, RapServer
from torpor.core.definition import ToolSpec
from torpor.core.errors import ModelRefused, Refused
from torpor.mcp.asking import Given, form_of, read
from torpor.mcp.caller import CALLER, caller, order, read_order, servers_of
from torpor.mcp.names import stems
from torpor.mcp.offers import of_agents, of_tools, shared
from torpor.mcp.outcomes import Asked, Outcome, schema, structure, words
from torpor.mcp.tickets import Ticket
from torpor.models import ScriptedModel


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        (["echo", "night watch"], ["echo", "night_watch"]),
        (["a b", "a_b"], ["a_b_c8687a", "a_b_648fa9"]),
        (["über.agent"], ["ber_agent"]),
    ],
)
def test_names_of_tools_are_made_of_agents(agents: list[str], expected: list[str]) -> None:
    assert list(stems(agents).values()) == expected


@pytest.mark.parametrize("agent", ["日本", "x" * 100, "-_-", "a" * 50 + "b"])
def test_any_name_becomes_one_that_the_protocol_takes(agent: str) -> None:
    (stem,) = stems([agent]).values()
    assert 1 <= len(stem) <= 57
    assert stem.isascii()
    assert stem.replace("_", "").replace("-", "").isalnum()


def test_a_name_does_not_depend_on_the_others_unless_they_are_alike() -> None:
    assert stems(["echo"])["echo"] == stems(["echo", "other"])["echo"]
    assert len(set(stems(["a b", "a_b", "a-b"]).values())) == 3


def test_shapes_hold_no_references() -> None:
    for offer in (*of_agents(["echo"]), *shared(answers=True, calls=True)):
        for shape in (offer.takes, offer.gives or {}):
            assert "$ref" not in json.dumps(shape)
            assert "title" not in shape
    assert schema(Outcome)["properties"]["asks"]["items"]["properties"]["wait"] == {"type": "string"}


def test_a_name_that_is_taken_is_told_apart() -> None:
    specs = [ToolSpec(name, "", {"properties": {}}, lambda _: []) for name in ("wait", "stock")]
    assert [offer.name for offer in of_tools(specs, frozenset({"wait"}))] == ["rap_wait", "stock"]


def test_a_ticket_is_read_again() -> None:
    ticket = Ticket("thread", "said/key/é", 7, calls=True, since=3, began=1.5)
    assert Ticket.read(ticket.text) == ticket
    assert ticket.text.isascii()


NEVER = [Ticket("thread", began=began).text for began in (-1.0, 1e300, float("nan"))]


@pytest.mark.parametrize("text", ["", "junk", "é", "a" * 2_001, "gA", "=", *NEVER])
def test_a_ticket_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="There is no such wait"):
        Ticket.read(text)


APPROVAL = Asked(
    wait="t.c.approval", kind="approval", tool="erase", answers=["approve", "deny"], arguments="{}"
)
CHOICE = Asked(wait="t.c.choice", kind="choice", tool="pick", prompt="Which?", answers=["a", "b", "dismiss"])
FORM = Asked(wait="t.c.form", kind="form", tool="book", form='{"type": "object", "properties": {}}')
SIGN = Asked(wait="t.c.authorization", kind="authorization", tool="mail", url="https://a.test")


def test_a_question_becomes_a_form() -> None:
    prompt, form = form_of(CHOICE)
    assert prompt == "Which?"
    assert form["properties"]["answer"]["enum"] == ["a", "b"]
    prompt, form = form_of(APPROVAL)
    assert prompt == "May erase run with {}?"
    assert form["properties"]["answer"]["enum"] == ["approve", "deny"]
    assert form_of(FORM) == ("book asks", {"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("asked", "action", "content", "given"),
    [
        (CHOICE, "accept", {"answer": "b"}, Given("b")),
        (CHOICE, "accept", None, Given(None)),
        (CHOICE, "decline", None, Given("dismiss")),
        (CHOICE, "cancel", None, None),
        (APPROVAL, "accept", {"answer": "deny", "comment": "no"}, Given("deny", "no")),
        (APPROVAL, "accept", {"answer": "approve", "comment": 7}, Given("approve")),
        (APPROVAL, "decline", {"answer": "approve"}, Given("deny")),
        (FORM, "accept", {"room": "red"}, Given({"room": "red"})),
        (FORM, "decline", None, Given("decline")),
        (SIGN, "accept", None, None),
    ],
)
def test_what_a_person_filled_in_is_read(
    asked: Asked, action: str, content: dict[str, Any] | None, given: Given | None
) -> None:
    assert read(asked, action, content) == given


def test_an_outcome_is_told_in_words() -> None:
    replied = Outcome(thread="t", state="replied", text="hi", position=3)
    assert (words(replied), replied.is_final) == ("hi", True)
    asking = Outcome(thread="t", state="asking", text="It waits.", asks=[APPROVAL, SIGN, FORM])
    assert not asking.is_final
    told = words(asking)
    assert told.startswith(
        "It waits. (thread t, asking)\nA person is asked, wait t.c.approval: approval for erase"
    )
    assert "at https://a.test" in told
    assert "by this schema" in told
    assert structure(asking)["asks"][1] == {
        "wait": "t.c.authorization", "kind": "authorization", "tool": "mail", "url": "https://a.test"
    }  # fmt: skip


def test_a_caller_is_told_one_call() -> None:
    assert read_order(order("stock", {"part": "bolt"})) == ("stock", {"part": "bolt"})
    for text in ("", "hello", "[]", '{"tool": 1, "arguments": {}}'):
        with pytest.raises(ModelRefused, match="makes one call"):
            read_order(text)


def test_a_server_is_reached_as_an_agent_configures_it() -> None:
    own = RapServer("https://a.test", token="own")
    agent = Agent("one", model=ScriptedModel([]), tools=[own])
    found = servers_of(["https://a.test/", "https://b.test", "https://b.test"], "given", [agent])
    assert [(one.url, one.token) for one in found] == [("https://a.test", "own"), ("https://b.test", "given")]
    assert caller(found).name == CALLER
