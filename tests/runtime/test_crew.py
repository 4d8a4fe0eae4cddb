"""What an agent keeps of the tools it has been given: a bounded number of definitions."""

import json

from torpor import Agent, RapServer
from torpor.clock import SystemClock
from torpor.crew import KNOWN, Joined
from torpor.models import ScriptedModel
from torpor.stores.memory import MemoryStore

SERVER = "http://127.0.0.1:9"


def manifest(name: str) -> bytes:
    tool = {"name": name, "description": name, "inputSchema": {"type": "object"}}
    endpoint = f"{SERVER}/call"
    return json.dumps({"rap": {"version": "1"}, "endpoint": endpoint, "tools": [tool]}).encode()


def test_definitions_are_kept_and_the_longest_unused_make_room() -> None:
    agent = Agent("a", model=ScriptedModel(["x"]), tools=[RapServer(SERVER)])
    store = MemoryStore(SystemClock())
    joined = Joined(agent, store, store)
    first, second = {SERVER: manifest("one")}, {SERVER: manifest("two")}
    kept, other = joined.definition(first), joined.definition(second)
    assert kept is not other
    for number in range(KNOWN - 1):
        joined.definition({SERVER: manifest(f"more_{number}")})
        assert joined.definition(first) is kept
    assert joined.definition(second) is not other
    assert joined.definition(first) is kept
