"""How many tokens models take: as given, as their names tell, or not known."""

import pytest

from torpor.agent import Agent
from torpor.core.errors import Refused
from torpor.crew import Joined
from torpor.models import Anthropic, OpenAI, ScriptedModel, resolve
from torpor.stores.memory import MemoryStore


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("openai:gpt-5-mini", 272_000),
        ("openai:gpt-4.1-nano", 1_047_576),
        ("openai:gpt-4o", 128_000),
        ("openai:gpt-4-0613", 8_192),
        ("openai:ft:gpt-4o-mini:house::x", 128_000),
        ("openai:something-new", 0),
        ("anthropic:claude-sonnet-4-5", 200_000),
        ("anthropic:mine", 0),
    ],
)
def test_by_name(name: str, window: int) -> None:
    assert resolve(name).window == window  # type: ignore[attr-defined]


def test_a_server_of_ones_own_may_take_less_than_a_model_of_that_name() -> None:
    assert OpenAI("gpt-5-mini", base_url="http://127.0.0.1:1/v1").window == 0
    assert OpenAI("gpt-5-mini", base_url="http://127.0.0.1:1/v1", window=9_000).window == 9_000


def test_what_is_given_counts() -> None:
    assert OpenAI("gpt-5-mini", window=0).window == 0
    assert Anthropic("claude-sonnet-4-5", window=1_000_000).window == 1_000_000
    assert ScriptedModel(["x"], window=100).window == 100


@pytest.mark.parametrize("window", [-1, 1.5, True, "8k"])
def test_it_is_a_number_of_tokens(window: object) -> None:
    with pytest.raises(Refused, match="whole number of tokens"):
        ScriptedModel(["x"], window=window)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="Agent 'a': window must be"):
        Agent("a", model=ScriptedModel(["x"]), window=window)  # type: ignore[arg-type]


class Plain:
    """A model that knows no window."""

    name = "plain:1"

    def stream(self) -> None:
        """Never asked."""


def test_an_agent_says_it_for_its_model() -> None:
    def window(model: object, given: int | None) -> int:
        agent, store = Agent("a", model=model, window=given), MemoryStore()  # type: ignore[arg-type]
        member = Joined(agent, store, store)
        assert member.definition({}).window == member.window
        return member.window

    assert window(ScriptedModel(["x"], window=100), None) == 100
    assert window(ScriptedModel(["x"], window=100), 50) == 50
    assert window(ScriptedModel(["x"], window=100), 0) == 0
    assert window(Plain(), None) == 0
    assert window(Plain(), 70) == 70
