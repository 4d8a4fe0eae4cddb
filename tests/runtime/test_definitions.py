"""What an agent cannot be is refused where it is written down, in words that say what to write."""

from typing import Any

import pytest

from torpor import Agent, Events, Limits, RapServer, Refused, Runtime, tool
from torpor.models import ScriptedModel, say

MODEL = ScriptedModel([say("Hi.")])
SERVER = RapServer("http://127.0.0.1:1")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def sleep(seconds: int) -> str:
    """Clash with a built-in tool."""
    return str(seconds)


def anything(value) -> str:  # type: ignore[no-untyped-def]
    """Take a parameter of no known type."""
    return str(value)


class Nameless:
    """Streams, and has no name."""

    def stream(self) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"model": None}, r"'a'.*model must be a text such as 'openai:gpt-5-mini'.*not None"),
        ({"model": Nameless()}, "an object with a name and a method stream"),
        ({"model": ScriptedModel}, "an object with a name"),
        ({"model": "gpt-5"}, "'gpt-5' names no model: write one of anthropic:NAME, openai:NAME"),
        ({"model": "openai:"}, "names no model"),
        ({"model": "scripted:hello"}, "scripted:package.module:name"),
        ({"tools": ["abc"]}, "'abc' is no tool: give a function"),
        ({"tools": "abc"}, "tools must be a list"),
        ({"tools": add}, "tools must be a list"),
        ({"tools": None}, "tools must be a list"),
        ({"tools": [Nameless]}, "is no tool"),
        ({"tools": [sleep]}, "'sleep' is reserved"),
        ({"tools": [add, add]}, "Two of its functions are named 'add'"),
        ({"tools": [SERVER, SERVER]}, "http://127.0.0.1:1 is named twice"),
        ({"tools": [anything]}, "tool anything: parameter value needs a type annotation"),
        ({"limits": {"completions": 3}}, "limits must be Limits"),
        ({"limits": Limits(depth=-1)}, "The limit depth must be a whole number, 0 or more, not -1"),
        ({"events": 5}, r"events must be Events\(...\), not 5"),
        ({"events": Events(window=-1)}, "window of events must be a finite number, 0 or more, not -1"),
        ({"events": Events(most=0)}, "most of events must be a whole number above 0, not 0"),
        ({"events": Events(verified="token")}, "no verification of events 'token'. Known: , signature"),
        ({"orphans": "leave"}, "no policy for orphans 'leave'. Known: close, adopt"),
        ({"limits": Limits(completions=0)}, "The limit completions must be a whole number above 0, not 0"),
        ({"limits": Limits(parallel=1.5)}, "parallel must be a whole number above 0, not 1.5"),  # type: ignore[arg-type]
        ({"limits": Limits(tries="3")}, "tries must be a whole number above 0, not '3'"),  # type: ignore[arg-type]
        ({"limits": Limits(seconds=float("nan"))}, "seconds must be a finite number above 0, not nan"),
        ({"limits": Limits(tokens=True)}, "tokens must be a whole number"),
        ({"tier": ["async"]}, "There is no tier"),
        ({"wake": None}, "There is no wake None. Known: all, each"),
        ({"instructions": None}, "instructions must be text"),
        ({"settings": ["hot"]}, "settings must be a dict"),
        ({"settings": {"x": object()}}, "settings must have a JSON form"),
    ],
)
def test_an_agent_that_cannot_be_is_refused_at_once(given: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=says):
        Agent("a", **({"model": MODEL} | given))


@pytest.mark.parametrize("name", [None, "", " a", "a\n", "\ud800", "x" * 101])
def test_a_name_that_cannot_be(name: Any) -> None:
    with pytest.raises(Refused, match="1 to 100 printable characters"):
        Agent(name, model=MODEL)


@pytest.mark.parametrize(
    ("agents", "says"),
    [
        ("x", "agents must be a list such as .*not 'x'"),
        (Agent("a", model=MODEL), "agents must be a list"),
        (["x"], "agents must hold objects of the class Agent, not 'x'"),
        ([Agent("twin", model=MODEL), Agent("twin", model=MODEL)], "Two agents are named 'twin'"),
    ],
)
def test_agents_that_no_runtime_can_have(agents: Any, says: str) -> None:
    with pytest.raises(Refused, match=says):
        Runtime("memory:", agents=agents)


def test_instructions_are_kept_without_lone_surrogates() -> None:
    assert Agent("a", model=MODEL, instructions="a\ud800b").instructions == "a\ufffdb"
