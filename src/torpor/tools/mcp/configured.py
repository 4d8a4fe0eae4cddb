"""The MCP servers that settings configure, made when they are asked for."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from torpor.core.errors import Refused
from torpor.tools.bridged import McpServer, OAuth
from torpor.tools.mcp.clients import read_each


class Table(Protocol):
    """A server as settings have it."""

    def filled(self, environ: Mapping[str, str]) -> dict[str, Any]:
        """What is set, as arguments for ``McpServer``, with variables replaced."""


class Configured(Mapping[str, McpServer]):
    """Servers by name: those of ``tables``, then those of a file in the JSON of other clients.

    A server that nobody asks for is not made, so that a secret that is missing fails only who needs it.
    ``Refused`` says which server cannot be used, and why.
    """

    def __init__(self, tables: Mapping[str, Table], file: str, environ: Mapping[str, str]) -> None:
        self._tables = tables
        self._file = file
        self._environ = environ
        self._read: dict[str, McpServer | Refused] | None = None

    def __getitem__(self, name: str) -> McpServer:
        found = self._made(name) if name in self._tables else self._of_file[name]
        if isinstance(found, Refused):
            raise found
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._tables or name in self._of_file

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._tables, *self._of_file)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    @property
    def _of_file(self) -> dict[str, McpServer | Refused]:
        if self._read is None:
            self._read = read_each(self._file, environ=self._environ)[0] if self._file else {}
        return self._read

    def _made(self, name: str) -> McpServer:
        try:
            given = self._tables[name].filled(self._environ)
            if "oauth" in given:
                given["oauth"] = OAuth(**given["oauth"])
            return McpServer(name, **given)
        except Refused as error:
            raise Refused(f"The settings' [mcp.{name}]: {error}") from None
