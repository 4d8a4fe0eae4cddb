"""The commands: ``torpor --help``. One file a command; each imports what it needs when it runs."""

import sys


def main() -> None:
    """Run the command line: exit code 0 if all went well, 1 if it was refused or failed, 2 if misused."""
    from torpor.cli.app import app
    from torpor.core.errors import TorporError

    try:
        app()
    except TorporError as error:
        from torpor.cli.visible import visible

        sys.stderr.write(f"torpor: {visible(str(error))}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not complain while it ends.
        sys.stdout = None
        sys.exit(0)
