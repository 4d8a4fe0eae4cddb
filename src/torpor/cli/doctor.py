"""``torpor doctor``: what is wrong with a deployment, in plain words."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from torpor.cli.options import Config, Json, Store, run, settings_of, with_agents
from torpor.ports.checkup import Finding

if TYPE_CHECKING:
    from torpor.agent import Agent
    from torpor.ports.checkup import Survey
    from torpor.settings import Settings
    from torpor.wiring import Parts

SIGNS = {"fine": ("✓ ", "bold green"), "note": ("! ", "bold yellow"), "wrong": ("✗ ", "bold red")}


def doctor(*, as_json: Json = False, config: Config = None, store: Store = None) -> None:
    """Check this deployment, and say in plain words what is wrong; exit code 1 if something is."""
    run(_doctor(config, store, as_json))


async def _doctor(config: Path | None, store: str | None, as_json: bool) -> int:
    from torpor.cli import screen

    console, found = screen.out(), list[Finding]()
    async for finding in _findings(config, store):
        found.append(finding)
        if not as_json:
            console.print(screen.line(SIGNS[finding.level], f"{finding.about:<9} ", finding.found))
    well = all(finding.level != "wrong" for finding in found)
    if as_json:
        print(screen.as_json({"well": well, "findings": found}))  # noqa: T201 -- the command's output
    return 0 if well else 1


async def _findings(config: Path | None, store: str | None) -> AsyncIterator[Finding]:
    from torpor.core.errors import TorporError
    from torpor.settings import shown_store
    from torpor.wiring import examine, open_parts

    try:
        settings = with_agents(settings_of(config, store))
    except TorporError as error:
        yield Finding("wrong", "settings", str(error))
        return
    yield Finding("fine", "settings", f"store {shown_store(settings.store)}, listen {settings.listen}")
    agents: list[Agent] = []
    for finding in (*_agents(settings, agents), *_mcp(settings), *_token(settings)):
        yield finding
    looked = examine(settings.store)
    for finding in looked.findings:
        yield finding
    if looked.survey is None:
        return
    try:
        async with open_parts(settings.store) as parts:
            async for finding in _inside(parts, settings, looked.survey, agents):
                yield finding
    except TorporError as error:
        yield Finding("wrong", "store", str(error))


def _agents(settings: "Settings", known: "list[Agent]") -> Iterator[Finding]:
    """What is said of the agents that settings name; those that can be had are added to ``known``."""
    from torpor.core.errors import TorporError
    from torpor.wiring import load_agents

    if not settings.agents:
        told = "none are set; serve and worker need them as arguments or in torpor.toml"
        yield Finding("fine", "agents", told)
    for ref in settings.agents:
        try:
            (agent,) = load_agents([ref])
        except TorporError as error:
            yield Finding("wrong", "agents", str(error))
        else:
            known.append(agent)
            yield Finding("fine", "agents", f"{ref} is {agent.name!r}")


def _mcp(settings: "Settings") -> Iterator[Finding]:
    from torpor.core.errors import TorporError

    names = list(settings.mcp)
    try:
        if settings.mcp_servers:
            from torpor import mcp_servers

            names += [one.name for one in mcp_servers(settings.mcp_servers, environ=os.environ)]
    except TorporError as error:
        yield Finding("wrong", "mcp", str(error))
    except ModuleNotFoundError as error:
        yield Finding("wrong", "mcp", f"{error.name} is needed: pip install 'torpor[mcp]'")
    if names:
        told = f"configured: {', '.join(dict.fromkeys(names))}; `torpor mcp check` looks into them"
        yield Finding("fine", "mcp", told)


def _token(settings: "Settings") -> Iterator[Finding]:
    from torpor.cli.tokens import read_token
    from torpor.core.errors import TorporError

    path = settings.token_path
    try:
        found = f"kept in {path}" if read_token(path) else "none yet; `torpor serve` makes one"
        yield Finding("fine", "token", found)
    except TorporError as error:
        yield Finding("wrong", "token", str(error))


async def _inside(
    parts: "Parts", settings: "Settings", survey: "Survey", agents: "list[Agent]"
) -> AsyncIterator[Finding]:
    from torpor.cli import doctor_fleet
    from torpor.cli.doctor_address import addresses
    from torpor.runtime.presence import present

    ids = parts.keys.ids
    yield Finding("fine", "key", f"{len(ids)} to sign callbacks, the newest {ids[-1]}")
    yield doctor_fleet.clock(survey)
    workers = await present(parts.side, survey.now)
    async for finding in addresses(parts, settings, workers, agents):
        yield finding
    for finding in doctor_fleet.fleet(survey, workers, [agent.name for agent in agents]):
        yield finding
