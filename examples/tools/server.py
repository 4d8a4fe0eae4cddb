"""A real tool server: runs programs, watches files and searches them, below one directory.

    python examples/tools/server.py --port 0 --root .

prints `{"port": N}` when it is ready. It listens on loopback only; a token, taken from the environment
variable TOOLS_TOKEN, shuts out other users of the machine. What runs here runs as you: give the server a
directory, and agents, that you trust with that.
"""

import argparse
import os
import sys
from pathlib import Path

from programs import Programs
from searching import Searching
from watching import Watching

from torpor.tools.server import ToolServer


def build(root: Path, *, outbox: str | Path, token: str | None = None) -> ToolServer:
    """Make the server of all three tools for one directory."""
    server = ToolServer(
        "workbench",
        description="Runs programs, and watches and searches files, in one directory.",
        outbox=outbox,
        token=token,
    )
    programs = Programs(root)
    watching = Watching(root)
    server.tool(long_running=True, restartable=True)(programs.run_command)
    server.tool(long_running=True, read_only=True)(watching.watch_path)
    server.tool(read_only=True)(Searching(root).search_files)
    return server


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Serve run_command, watch_path and search_files to agents.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--root", type=Path, default=Path(), help="programs and watches stay below it")
    parser.add_argument(
        "--outbox", type=Path, default=Path("workbench.outbox.db"), help="file of owed callbacks"
    )
    chosen = parser.parse_args()
    try:
        server = build(chosen.root, outbox=chosen.outbox, token=os.environ.get("TOOLS_TOKEN"))
        server.run(port=chosen.port, announce=True)
    except (OSError, ValueError) as error:
        sys.exit(f"The tool server cannot run: {error}")


if __name__ == "__main__":
    main()
