"""``torpor serve``: API, callbacks, live events, and a worker, in one process."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import AgentRefs, Config, Store, run, settings_of, with_agents

if TYPE_CHECKING:
    from torpor.settings import Settings


def serve(
    agents: AgentRefs = None,
    *,
    config: Config = None,
    store: Store = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where it listens; port 0 takes a free one.")
    ] = None,
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="How others reach this server.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Slices side by side; 0: none here.")
    ] = None,
) -> None:
    """Serve the API and callbacks, and run the agents."""
    overrides = {"listen": listen, "public_url": public_url, "workers": workers, "agents": agents or None}
    run(_serve(with_agents(settings_of(config, store, **overrides))))


async def _serve(settings: "Settings") -> int:
    from torpor.cli.screen import err, line
    from torpor.cli.tokens import make_token
    from torpor.cli.working import log_to_stderr, until_signalled
    from torpor.web.app import build
    from torpor.web.listening import check_free, listening
    from torpor.wiring import ADDRESSES, open_parts

    log_to_stderr(settings.log_level)
    check_free(settings.listen)
    async with contextlib.AsyncExitStack() as stack:
        parts = await stack.enter_async_context(open_parts(settings, claim=settings.claim))
        app = build(
            parts.threads,
            parts.callbacks,
            token=make_token(settings.token_path),
            public_url=settings.public_url,
            body_limit=settings.body_limit,
            authorizations=parts.authorizations,
        )
        url = await stack.enter_async_context(listening(app, settings.listen))
        await parts.register(settings.public_url or url, "public" if settings.public_url else "serve")
        await parts.side.put(ADDRESSES, "local", url.encode())
        if settings.workers and parts.roster.names:
            await stack.enter_async_context(parts.working(settings.workers))
        signalled = asyncio.create_task(until_signalled(), name="torpor-signals")
        await asyncio.sleep(0)  # from here on a signal ends the server in order
        if not parts.roster.names:
            hint = (
                "no agents: threads wait. Name some, `torpor serve package.module:name`, or in torpor.toml."
            )
            err().print(line(("warning: ", "bold yellow"), hint))
        err().print(line(("serving ", "dim"), url, f"  agents: {', '.join(parts.roster.names) or 'none'}"))
        if settings.token_path is not None:
            err().print(line(("token in ", "dim"), str(settings.token_path)))
        await signalled
        err().print(line(("stopping", "dim")))
        await parts.side.put(ADDRESSES, "local", b"")
    return 0
