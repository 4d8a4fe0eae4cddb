"""``torpor show``: a conversation with its times and waits."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import Config, Json, Store, ThreadId, run, settings_of

if TYPE_CHECKING:
    from torpor.cli.conversation import Conversation
    from torpor.cli.desk import Desk
    from torpor.settings import Settings


def show(
    thread: ThreadId,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Do not shorten results.")] = False,
    as_json: Json = False,
    config: Config = None,
    store: Store = None,
) -> None:
    """Show a thread: who said what, and how long it waited for what."""
    run(_show(settings_of(config, store), thread, follow, full, as_json))


async def _show(settings: "Settings", thread: str, follow: bool, full: bool, as_json: bool) -> int:
    from torpor.cli.desk import opened

    async with opened(settings) as there:
        if as_json:
            await _show_json(there.desk, thread, follow)
        else:
            await _show_text(there.desk, thread, follow, full)
    return 0


async def _show_text(desk: "Desk", thread: str, follow: bool, full: bool) -> None:
    from torpor.cli.conversation import Conversation
    from torpor.cli.questions import asked
    from torpor.cli.screen import out

    found = await desk.get(thread)
    conversation = Conversation(found, await desk.records(thread), full=full)
    screen = out()
    entries = await desk.entries(thread)
    for text in conversation.heading():
        screen.print(text)
    for entry in entries:
        for text in conversation.entry(entry):
            screen.print(text)
    if not follow:
        for text in (*conversation.ending(), *asked(await desk.waits(thread), time.time())):
            screen.print(text)
        return
    await _go_on(desk, thread, entries[-1].position if entries else 0, conversation)


async def _go_on(desk: "Desk", thread: str, after: int, conversation: "Conversation") -> None:
    from torpor.cli.screen import out
    from torpor.runtime.replies import Entry

    screen = out()
    async for item in desk.watch(thread, after):
        if isinstance(item, Entry):
            for text in conversation.entry(item):
                screen.print(text)


async def _show_json(desk: "Desk", thread: str, follow: bool) -> None:
    from torpor.cli.conversation import as_entries
    from torpor.cli.screen import as_json
    from torpor.runtime.replies import Entry

    found, entries = await desk.get(thread), await desk.entries(thread)
    whole = {"thread": found, "messages": as_entries(entries), "records": await desk.records(thread)}
    print(as_json(whole), flush=True)  # noqa: T201 -- the command's output
    if follow:
        async for item in desk.watch(thread, entries[-1].position if entries else 0):
            if isinstance(item, Entry):
                print(as_json(as_entries([item])[0], indent=None), flush=True)  # noqa: T201 -- likewise
