"""``torpor explain``: what a thread waits for."""

from typing import TYPE_CHECKING

from torpor.cli.options import Config, Json, Store, ThreadId, run, settings_of

if TYPE_CHECKING:
    from torpor.settings import Settings


def explain(thread: ThreadId, as_json: Json = False, config: Config = None, store: Store = None) -> None:
    """Say what a thread waits for, and since when."""
    run(_explain(settings_of(config, store), thread, as_json))


async def _explain(settings: "Settings", thread: str, as_json: bool) -> int:
    from torpor.cli import screen
    from torpor.cli.desk import opened
    from torpor.cli.questions import asked

    async with opened(settings) as there:
        explanation = (await there.desk.get(thread)).explanation
        questions = await there.desk.waits(thread)
    if as_json:
        print(screen.as_json(explanation))  # noqa: T201 -- the command's output
    else:
        screen.out().print(screen.line(explanation.text))
        for text in asked(questions, there.now):
            screen.out().print(text)
    return 0
