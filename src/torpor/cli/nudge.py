"""``torpor nudge``."""

from torpor.cli.commanding import command
from torpor.cli.options import Config, Store, ThreadId, run, settings_of


def nudge(thread: ThreadId, config: Config = None, store: Store = None) -> None:
    """Let a parked or stopped thread go on."""
    run(command(settings_of(config, store), thread, "nudge"))
