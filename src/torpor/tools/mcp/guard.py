"""One small watcher for all server processes of this one: they end with it, however it ends.

A server that is spoken to over pipes sees its input close when this process dies. One that does not care, and
whatever it has started, is ended by the watcher: a shell script that knows the process groups, waits on
a pipe from here, and sleeps until that closes. It costs about a megabyte, and no time.
"""

import os
import subprocess
from contextlib import suppress

SCRIPT = """
trap '' INT TERM HUP
groups=
while read -r sign number; do
  if [ "$sign" = + ]; then groups="$groups $number"; continue; fi
  rest=
  for one in $groups; do [ "$one" = "$number" ] || rest="$rest $one"; done
  groups=$rest
done
[ -n "$groups" ] || exit 0
sleep 1
for one in $groups; do kill -TERM -"$one"; done
sleep 2
for one in $groups; do kill -KILL -"$one"; done
"""
SHELL = "/bin/sh"


class Guard:
    """Ends process groups when this process is gone. Where there is no shell, it does nothing."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()

    def watch(self, group: int) -> None:
        """End this group, too."""
        self._groups.add(group)
        if not self._told(f"+ {group}\n"):
            self._start()

    def leave(self, group: int) -> None:
        """This group has ended."""
        self._groups.discard(group)
        self._told(f"- {group}\n")
        if not self._groups:
            self.close()

    def close(self) -> None:
        """Let the watcher go; it ends what it still watches."""
        shell, self._shell = self._shell, None
        if shell is not None and shell.stdin is not None:
            with suppress(OSError):
                shell.stdin.close()
            if not self._groups:
                shell.wait()

    def _told(self, line: str) -> bool:
        if self._shell is None or self._shell.stdin is None or self._shell.poll() is not None:
            return False
        try:
            self._shell.stdin.write(line.encode())
        except OSError:
            return False
        return True

    def _start(self) -> None:
        if not os.access(SHELL, os.X_OK):
            return
        with suppress(OSError):
            self._shell = subprocess.Popen(  # noqa: S603 - a script of our own, without arguments
                [SHELL, "-c", SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
                cwd="/",
            )
            for group in self._groups:
                self._told(f"+ {group}\n")
