"""Names of tools as MCP clients take them, made of names of agents."""

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

MOST = 50
"""Characters of an agent's name in a tool's name: clients put names of their own before it."""

VERBS = ("start", "ask", "wait")

_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


def stems(agents: Sequence[str]) -> dict[str, str]:
    """What the names of each agent's tools begin with, by agent.

    An agent's stem depends on its own name alone unless two agents would have the same: these are told apart
    by a digest of their names.
    """
    short = {agent: _stem(agent) for agent in agents}
    counts = Counter(short.values())
    return {agent: stem if counts[stem] == 1 else f"{stem}_{_digest(agent)}" for agent, stem in short.items()}


def _stem(agent: str) -> str:
    cut = _UNFIT.sub("_", agent).strip("_-")
    return cut if cut and len(cut) <= MOST else f"{cut[: MOST - 7]}_{_digest(agent)}".lstrip("_")


def _digest(agent: str) -> str:
    return sha256(agent.encode()).hexdigest()[:6]
