"""``torpor close``."""

from torpor.cli.commanding import command
from torpor.cli.options import Config, Store, ThreadId, run, settings_of


def close(thread: ThreadId, config: Config = None, store: Store = None) -> None:
    """End a thread for good."""
    run(command(settings_of(config, store), thread, "close"))
