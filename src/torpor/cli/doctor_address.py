"""Whether commands, tool servers and browsers reach a server of the store."""

import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from torpor.ports.checkup import Finding

if TYPE_CHECKING:
    from torpor.agent import Agent
    from torpor.runtime.presence import Here
    from torpor.settings import Settings
    from torpor.wiring import Address, Parts


async def addresses(
    parts: "Parts", settings: "Settings", workers: "Sequence[Here]", agents: "Sequence[Agent]"
) -> AsyncIterator[Finding]:
    """What is said of the server that commands use, and of the address that callbacks go to."""
    from torpor.cli.remote import reach

    server, known = await reach(parts.side, settings), await parts.address()
    if server is not None:
        yield Finding("fine", "server", f"answers at {server.url}")
    elif known.url:
        yield Finding("note", "server", f"none answers with this token (the last one: {known.url})")
    else:
        yield Finding("note", "server", "none was started yet")
    if known.url:
        yield await _answered(parts, known)
        for finding in (*_agreed(settings, known), *_reached(known, workers, agents)):
            yield finding
    elif _are_called_back(agents):
        told = (
            "no address is known: calls to tool servers wait until `torpor serve` runs, or public_url is set"
        )
        yield Finding("note", "callbacks", told)


async def _answered(parts: "Parts", known: "Address") -> Finding:
    """Whether a server of this store takes what comes to the address."""
    from torpor.wiring import ask_health

    challenge = secrets.token_urlsafe(24)
    health = await ask_health(known.url, challenge)
    if health is None:
        told = (
            f"nobody answers at {known.url}, seen from here: tool servers send again for a day, so start "
            "`torpor serve`, or look at what is in front of it"
        )
        return Finding("note", "callbacks", told)
    if not await parts.keys.proves(challenge, health.store):
        told = f"a server of another store answers at {known.url}: restart ours, or correct public_url"
        return Finding("wrong", "callbacks", told)
    return Finding("fine", "callbacks", f"are taken at {known.url}")


def _agreed(settings: "Settings", known: "Address") -> list[Finding]:
    wanted = settings.public_url.rstrip("/")
    if not wanted or wanted == known.url.rstrip("/"):
        return []
    told = f"public_url is {wanted}, but calls name {known.url} until `torpor serve` is restarted with it"
    return [Finding("note", "callbacks", told)]


def _reached(known: "Address", workers: "Sequence[Here]", agents: "Sequence[Agent]") -> list[Finding]:
    """Whether an address of one machine is given out by workers of others."""
    here = socket.gethostname()
    elsewhere = sorted({worker.worker.partition("/")[0] for worker in workers} - {here})
    if known.kind == "public" or known.is_lasting or not elsewhere:
        return []
    told = (
        f"{known.url} leads nowhere from elsewhere, and workers run on {', '.join(elsewhere)}: set "
        "public_url to an address that tool servers reach, and restart `torpor serve`"
    )
    return [Finding("wrong" if _are_called_back(agents) else "note", "callbacks", told)]


def _are_called_back(agents: "Sequence[Agent]") -> bool:
    """Whether one of the agents uses a tool server, which answers by callbacks."""
    from torpor import RapServer

    return any(isinstance(tool, RapServer) for agent in agents for tool in agent.tools)
