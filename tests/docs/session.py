"""A reader at a terminal: follows the console blocks of a page in a folder of its own."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.docs.pages import EXAMPLES, ROOT, Block

BIN = Path(sys.executable).parent
SECONDS = 60.0
PLACEHOLDER = "THREAD"
READY = "serving "
"""What a server says first."""


class Session:
    """Runs commands in ``folder``, which holds a copy of the examples, or in that copy.

    Servers it starts end with it.
    """

    def __init__(self, folder: Path, at: str = "") -> None:
        self.folder = folder / "examples" if at == "examples" else folder
        self.thread = ""
        self.servers: list[subprocess.Popen[str]] = []
        shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("*.db*", "__pycache__"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers:
            server.terminate()
        for server in self.servers:
            server.communicate(timeout=SECONDS)

    def follow(self, block: Block) -> None:
        """Run what a block says, and compare what it shows with what comes."""
        for command, shown in _steps(block):
            words = shlex.split(command.replace(PLACEHOLDER, self.thread or PLACEHOLDER), comments=True)
            told = self._run(words)
            if told is not None and shown:
                pattern = _pattern(shown)
                assert re.fullmatch(pattern, told), f"{block}: {command}\n{told}\nis not what the page shows"

    def _run(self, words: list[str]) -> str | None:
        """What a command prints; None for one that is only looked at."""
        match words:
            case ["cd", folder]:
                self.folder = self.folder / folder
                assert self.folder.is_dir(), folder
                return None
            case ["make", verb]:
                assert re.search(rf"^{re.escape(verb)}:", (ROOT / "Makefile").read_text(), re.MULTILINE), verb
                return None
            case ["torpor", "serve", *_]:
                return self._serve(words)
        done = subprocess.run(
            words, check=False, cwd=self.folder, env=self._environment(), text=True, timeout=SECONDS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stdout}"
        if words[:2] == ["torpor", "new"]:
            self.thread = done.stdout.split()[0]
        return done.stdout

    def _serve(self, words: list[str]) -> str:
        server = subprocess.Popen(
            words, cwd=self.folder, env=self._environment(), text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.servers.append(server)
        assert server.stderr is not None
        first = server.stderr.readline()
        assert first.startswith(READY), first + server.stderr.read()
        return first + server.stderr.readline()

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TORPOR_")}
        return kept | {"PATH": f"{BIN}{os.pathsep}{kept['PATH']}", "TORPOR_LISTEN": "127.0.0.1:0"}


def _steps(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block with the lines shown below it."""
    command = ""
    shown: list[str] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], []
        else:
            assert command, f"{block}: a line without a command: {line}"
            shown.append(line)
    if command:
        yield command, shown


def _pattern(shown: list[str]) -> str:
    """What is shown, as a pattern: ``…`` stands for anything in a line, alone for any number of lines."""
    lines = (
        r"(?:.*\n)*?" if line == "…" else r"[^\n]*".join(map(re.escape, line.split("…"))) + r"\s*?\n"
        for line in shown
    )
    return "".join(lines)
