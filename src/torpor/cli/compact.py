"""``torpor compact``."""

from torpor.cli.commanding import command
from torpor.cli.options import Config, Store, ThreadId, run, settings_of


def compact(thread: ThreadId, config: Config = None, store: Store = None) -> None:
    """Have the history summed up now, however short it is."""
    run(command(settings_of(config, store), thread, "compact"))
