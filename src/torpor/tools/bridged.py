"""MCP servers as an agent's author configures them."""

import dataclasses
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from torpor.core.errors import Refused
from torpor.tools.addresses import check_url, host_of, reach

SCHEME = "mcp:"
"""Begins the address of an MCP server, where a RAP server's address is its URL."""

REPEATS = ("safe", "keyed", "unsafe")
NAME_LIMIT = 64
"""Characters of a tool's name that every provider of models takes."""

RESULT_LIMIT = 16 * 1024 * 1024
LEAST_RESULT = 64 * 1024
LAUNCHERS = frozenset(
    {"npx", "bunx", "uvx", "pipx", "pnpm", "yarn", "bun", "deno", "uv", "node", "python", "py"}
)
"""Commands that run something else, which then names the server."""
VERBS = frozenset({"run", "dlx", "exec", "tool", "x"})
ENDINGS = (".exe", ".cmd", ".bat", ".py", ".js", ".mjs", ".cjs", ".ts")

LEAST_SECRET = 6
"""Characters of what may be a secret; shorter texts are words that stand anywhere."""

_SECRET = re.compile("key|token|secret|pass|auth|cred", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = frozenset({"content-type", "content-length", "host", "accept", "transfer-encoding", "mcp-session-id"})


@dataclasses.dataclass(frozen=True)
class OAuth:
    """How to sign in at an MCP server, where its own metadata does not tell all.

    Without a ``client_id`` a client is registered at the authorization server, if that allows it.
    """

    client_id: str = ""
    client_secret: str | None = dataclasses.field(default=None, repr=False)
    scope: str = ""
    """Scopes to ask for, separated by spaces; empty: what the server names."""

    def __post_init__(self) -> None:
        for name in ("client_id", "scope"):
            if not isinstance(getattr(self, name), str):
                raise Refused(f"The {name} of OAuth must be text.")
        secret: object = self.client_secret
        if secret is not None and not (isinstance(secret, str) and self.client_id):
            raise Refused("The client_secret of OAuth must be text, and comes with a client_id.")


@dataclasses.dataclass(frozen=True, repr=False)
class McpServer:
    """An MCP server as an agent's author configures it: a command to start, or the URL of a running one.

    With a name alone it stands for the server that the settings configure under this name. ``Refused`` for
    settings that cannot work.
    """

    name: str = ""
    """Letters, digits, ``_`` and ``-``; by default that of the command, or of the URL's host."""
    _: dataclasses.KW_ONLY
    command: Sequence[str] | None = None
    """Program and arguments, spoken to over its standard input and output."""
    env: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    """Added to the few variables that a server inherits (``PATH``, ``HOME``, ``LANG`` and such)."""
    cwd: str | None = None
    url: str | None = None
    """Of a server that speaks Streamable HTTP."""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    """Sent to the origin of ``url``, nowhere else."""
    allow_http: bool = False
    """Plain http although the server is on another machine."""
    private_hosts: tuple[str, ...] = ()
    """Hosts that the server may lead to (to sign in, say) although their addresses are not public."""
    allow: tuple[str, ...] | None = None
    """Only these of its tools are offered; None: all."""
    deny: tuple[str, ...] = ()
    """These of its tools are not offered."""
    prefix: str = ""
    """Put before the names of its tools, such as ``github_``."""
    wrapped: bool = False
    """Offer two tools, ``NAME_list_tools`` and ``NAME_invoke_tool``, in place of the server's own: for a
    server with hundreds of them."""
    repeat: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    """By tool: ``safe``, ``keyed`` or ``unsafe`` to call again when it is not known what became of a call;
    wins over what the server says."""
    needs_approval: tuple[str, ...] = ()
    """Tools that count as destructive, whatever the server says."""
    roots: tuple[str, ...] = ()
    """Folders that the server is told it may work in; paths or ``file:`` URLs."""
    sampling: bool = False
    """Whether the server may ask the agent's model, on the agent's budget."""
    elicitation: bool = True
    """Whether the server may ask the user."""
    per_thread: bool = False
    """The server keeps state by connection: each root thread has a connection of its own."""
    start_timeout: float = 30.0
    """Seconds until the server must have introduced itself."""
    idle_timeout: float = 120.0
    """Seconds of a call without a sign of life; progress is one."""
    call_timeout: float = 3600.0
    """Seconds of a call in all."""
    result_limit: int = RESULT_LIMIT
    """Bytes of one message of the server that are taken."""
    oauth: OAuth | None = None
    """None: if the server asks for it, a client is registered by itself."""
    resources: bool = False
    """Offer tools that list and read the server's resources."""
    prompts: bool = False
    """Offer tools that list and fill in the server's prompts."""

    def __post_init__(self) -> None:
        _settle(self, "command", _command(self.command))
        _check_texts(self)
        if self.command is not None and self.url is not None:
            raise Refused("An MCP server has either a command or a url, not both.")
        if self.url is not None:
            check_url(self.url, allow_http=self.allow_http, what="An MCP server's URL")
        _settle(self, "name", self.name or _default_name(self))
        if not _NAME.fullmatch(self.name):
            raise Refused(
                f"The name of an MCP server is 1 to 64 letters, digits, '_' and '-', not {_shown(self.name)}."
            )
        for name in ("env", "headers", "repeat"):
            _settle(self, name, _pairs(self, name))
        for name in ("private_hosts", "allow", "deny", "needs_approval", "roots"):
            _settle(self, name, _texts(self, name))
        _check_apart(self)
        _check_numbers(self)
        if not isinstance(self.oauth, OAuth | None):
            raise Refused(f"{self}: oauth must be OAuth(...), not {_shown(self.oauth)}.")

    def __repr__(self) -> str:
        return f"McpServer({self.name!r})"

    @property
    def address(self) -> str:
        """What the server is called where a RAP server's URL stands: ``mcp:NAME``."""
        return SCHEME + self.name

    @property
    def is_reference(self) -> bool:
        """It is only a name; the settings tell the rest."""
        return self.command is None and self.url is None

    @property
    def reach(self) -> frozenset[str]:
        """The hosts that requests for this server may find at addresses which are not public."""
        return reach(self.url or "", self.private_hosts)

    def hide(self, text: str) -> str:
        """Words of the server, or about it, without the secrets that it was given."""
        given = [value for name, value in self.env.items() if _SECRET.search(name)]
        given += [part for value in self.headers.values() for part in (value, value.partition(" ")[2])]
        for secret in given:
            if len(secret) >= LEAST_SECRET:
                text = text.replace(secret, "[hidden]")
        return text

    def prefixed(self, tool: str) -> str:
        """Another name for a tool whose own is taken: that of the server goes before it."""
        return short_name(fit_name(f"{self.name}_{tool}"))

    def offers(self, tool: str) -> bool:
        """Whether a tool is allowed and not denied, by the server's name for it or by the one shown."""
        names = {tool, tool.removeprefix(self.prefix), self.prefix + tool}
        if any(_is_one_of(name, self.deny) for name in names):
            return False
        return self.allow is None or any(_is_one_of(name, self.allow) for name in names)


def short_name(name: str) -> str:
    """A name that providers take: of a longer one the beginning, and what tells it apart."""
    return name if len(name) <= NAME_LIMIT else f"{name[: NAME_LIMIT - 9]}_{digest(name)}"


def digest(text: str) -> str:
    """Eight digits that tell texts apart."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def is_bridged(address: str) -> bool:
    """Whether an address is an MCP server's."""
    return address.startswith(SCHEME)


def fit_name(text: str) -> str:
    """A name with only the characters that names of tools may have."""
    return _UNFIT.sub("_", text)


def _is_one_of(name: str, listed: Sequence[str]) -> bool:
    return name in listed or any(name == fit_name(one) for one in listed)


def _settle(server: McpServer, name: str, value: object) -> None:
    object.__setattr__(server, name, value)


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _command(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise Refused("An MCP server's command is a list such as ['npx', '-y', 'some-server'].")
    texts = all(isinstance(one, str) and "\0" not in one for one in given)
    if not texts or not given or not given[0].strip():
        raise Refused("An MCP server's command must be a list of texts that begins with a program.")
    return tuple(given)


def _check_texts(server: McpServer) -> None:
    for name in ("name", "prefix"):
        if not isinstance(getattr(server, name), str):
            raise Refused(f"The {name} of an MCP server must be text.")
    for name in ("cwd", "url"):
        if not isinstance(getattr(server, name), str | None):
            raise Refused(f"The {name} of an MCP server must be text.")
    if server.prefix and (not _NAME.fullmatch(server.prefix) or len(server.prefix) > NAME_LIMIT // 2):
        raise Refused("The prefix of an MCP server is at most 32 letters, digits, '_' and '-'.")


def _default_name(server: McpServer) -> str:
    if server.url is not None:
        return fit_name(host_of(server.url))[:NAME_LIMIT].strip("_-")
    if server.command is None:
        raise Refused("An MCP server needs a command, a url, or the name of one that the settings configure.")
    first = _stem(server.command[0])
    told = [one for one in server.command[1:] if one and not one.startswith("-") and one not in VERBS]
    launched = first.rstrip("0123456789.") in LAUNCHERS and bool(told)
    named = _stem(told[0]) if launched else first
    return fit_name(named)[:NAME_LIMIT].strip("_-")


def _stem(path: str) -> str:
    """The last part of a path or package, without version and ending."""
    last = PurePath(path.replace("\\", "/")).name
    last = re.split(r"(?<=.)@|[=<>~!]=", last)[0]
    for ending in ENDINGS:
        last = last.removesuffix(ending)
    return last


def _pairs(server: McpServer, name: str) -> Mapping[str, str]:
    given = getattr(server, name)
    if not isinstance(given, Mapping) or not all(
        isinstance(one, str) for pair in given.items() for one in pair
    ):
        raise Refused(f"{server}: {name} must be a dict of texts.")
    check = {"env": _check_variable, "headers": _check_header, "repeat": _check_repeat}[name]
    for key, value in given.items():
        check(server, key, value)
    return MappingProxyType(dict(given))


def _check_variable(server: McpServer, name: str, value: str) -> None:
    if not name or "=" in name or "\0" in name + value:
        raise Refused(f"{server}: {_shown(name)} in env cannot be set.")


def _check_header(server: McpServer, name: str, value: str) -> None:
    if not _FIELD.fullmatch(name) or name.lower() in _OURS:
        raise Refused(f"{server}: {_shown(name)} is no header that can be set.")
    if not value.isascii() or not value.isprintable():
        raise Refused(f"{server}: the value of the header {name} must be printable ASCII.")


def _check_repeat(server: McpServer, name: str, value: str) -> None:
    if value not in REPEATS:
        raise Refused(f"{server}: repeat of {_shown(name)} is one of {', '.join(REPEATS)}.")


def _texts(server: McpServer, name: str) -> tuple[str, ...] | None:
    given = getattr(server, name)
    if given is None and name == "allow":
        return None
    if isinstance(given, str) or not isinstance(given, Sequence | set | frozenset):
        raise Refused(f"{server}: {name} must be a sequence of texts.")
    if not all(isinstance(one, str) for one in given):
        raise Refused(f"{server}: {name} must be a sequence of texts.")
    return tuple(given)


def _check_apart(server: McpServer) -> None:
    """What belongs to one transport is not given for the other."""
    wrong = [name for name in ("env", "cwd") if getattr(server, name) and server.command is None]
    wrong += [name for name in ("headers", "oauth") if getattr(server, name) and server.url is None]
    if wrong:
        wants = "a command" if wrong[0] in ("env", "cwd") else "a url"
        raise Refused(f"{server}: {wrong[0]} needs {wants}.")
    if server.oauth is not None and any(name.lower() == "authorization" for name in server.headers):
        raise Refused(f"{server}: it has an Authorization header, or oauth, not both.")


def _check_numbers(server: McpServer) -> None:
    for name in ("start_timeout", "idle_timeout", "call_timeout"):
        value = getattr(server, name)
        fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not fits or value <= 0:
            raise Refused(f"{server}: {name} must be a finite number of seconds above 0.")
    limit: Any = server.result_limit
    if not isinstance(limit, int) or isinstance(limit, bool) or not LEAST_RESULT <= limit <= 1 << 30:
        raise Refused(f"{server}: result_limit must be from {LEAST_RESULT} to {1 << 30} bytes.")
