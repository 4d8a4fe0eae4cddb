"""``torpor stop``."""

from torpor.cli.commanding import command
from torpor.cli.options import Config, Store, ThreadId, run, settings_of


def stop(thread: ThreadId, config: Config = None, store: Store = None) -> None:
    """Cut what runs, until words or a nudge."""
    run(command(settings_of(config, store), thread, "stop"))
