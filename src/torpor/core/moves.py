"""Threads between two stores: states in which nobody may touch them, and what is rewritten on the way."""

import msgspec

from torpor.core.effects import Cancel, Check, Choose, Effect, Invoke, Post, Spawn
from torpor.core.signals import AnySignal, BornSignal

MOVING = "moving"
"""State of a thread's row in the store that it leaves: its head says in which one it was."""
ARRIVING = "arriving"
"""State of its copy in the store that it goes to, until it is all there."""
MOVED = "moved"
"""State of what it left behind in the other one; its head is closed."""
AWAY = frozenset({MOVING, ARRIVING, MOVED})
"""States of rows whose threads are left alone: no slice, no effect, no sweep."""
HUSKS = frozenset({ARRIVING, MOVED})
"""States of those of them that make room for the thread when it comes."""


def moved_effect(effect: Effect, servers: dict[str, str]) -> Effect:
    """An effect whose tool server has another URL from now on."""
    match effect:
        case Invoke() | Cancel() | Choose() | Check():
            return msgspec.structs.replace(effect, server=servers.get(effect.server, effect.server))
        case Spawn():
            return msgspec.structs.replace(effect, born=_born(effect.born, servers))
        case Post():
            return msgspec.structs.replace(effect, signal=moved_signal(effect.signal, servers))
        case _:
            return effect


def moved_signal(signal: AnySignal, servers: dict[str, str]) -> AnySignal:
    """A signal; a child that is born looks for the tools of such a server itself."""
    return _born(signal, servers) if isinstance(signal, BornSignal) else signal


def _born(born: BornSignal, servers: dict[str, str]) -> BornSignal:
    kept = {url: hash for url, hash in born.toolsets.items() if url not in servers}
    return msgspec.structs.replace(born, toolsets=kept)
