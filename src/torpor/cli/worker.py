"""``torpor worker``: runs slices and nothing else."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import AgentRefs, Config, Store, run, settings_of, with_agents

if TYPE_CHECKING:
    from torpor.runtime.worker import Worker
    from torpor.settings import Settings
    from torpor.wiring import Parts


def worker(
    agents: AgentRefs = None,
    *,
    config: Config = None,
    store: Store = None,
    workers: Annotated[int | None, typer.Option(metavar="NUMBER", help="Slices side by side.")] = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when there is nothing to do now or soon.")
    ] = False,
    soon: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="Seconds that are soon; by default what a killed worker holds work for.",
        ),
    ] = None,
) -> None:
    """Run the agents, and nothing else."""
    settings = with_agents(settings_of(config, store, workers=workers, agents=agents or None))
    held = settings.lease + settings.claim
    run(_worker(settings, (held if soon is None else soon) if until_idle else None))


async def _worker(settings: "Settings", soon: float | None) -> int:
    from torpor.cli.screen import err, line
    from torpor.cli.working import log_to_stderr, need_agents, until_signalled
    from torpor.runtime.sweep import sweep
    from torpor.wiring import open_parts

    log_to_stderr(settings.log_level)
    async with open_parts(settings, claim=settings.claim) as parts:
        need_agents(parts)
        await sweep(parts.store, parts.queue)
        async with parts.working(max(1, settings.workers)) as running:
            err().print(line(("working ", "dim"), f"agents: {', '.join(parts.roster.names)}"))
            ends = [asyncio.create_task(until_signalled())]
            if soon is not None:
                ends.append(asyncio.create_task(_until_idle(parts, running, soon)))
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
            for end in done:
                end.result()
        err().print(
            line(("stopped ", "dim"), f"after {running.slices} slice{'' if running.slices == 1 else 's'}")
        )
    return 0


async def _until_idle(parts: "Parts", running: "Worker", soon: float) -> None:
    """Return when nothing runs here, nothing is rung for soon, and no thread of our agents holds work."""
    from torpor.runtime.sweep import sweep

    names = parts.roster.names
    while True:
        next_at = await parts.queue.next_at(names)
        rung = next_at and next_at <= await parts.store.now() + soon
        if not (rung or running.busy or parts.dispatcher.busy):
            await sweep(parts.store, parts.queue, names)
            if not await parts.store.stranded(1, ahead=soon, agents=names):
                return
        await asyncio.sleep(0.05)
