"""Which tools an agent has: tool servers as configured, their manifests checked, all names assembled."""

import dataclasses
import hashlib
import hmac
import math
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec

from torpor.core.builtins import BUILTINS
from torpor.core.definition import ToolSpec
from torpor.core.errors import Refused
from torpor.core.request import INJECTED
from torpor.tools.addresses import check_url, origin_of, reach
from torpor.tools.bridged import McpServer, is_bridged
from torpor.tools.manifests import WireTool, parse_manifest
from torpor.tools.protocol import FEATURES
from torpor.tools.schema import check_schema, compile_schema
from torpor.tools.signatures import TOLERANCE, Secrets, checked_tolerance

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MANIFEST_LIMIT = 2_000_000
"""Bytes of a manifest that are read at most."""

RESERVED = frozenset({INJECTED, "read_result", *(tool.name for tool in BUILTINS)})
"""Names that no function and no tool server may use."""

BUILTIN = "a built-in tool"
DEFECTS_SHOWN = 10
NAME_LIMIT = 128
KEPT = 256
"""Manifests, and lists of tools made from them, that the process remembers."""

_PIN = re.compile(r"sha256:[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class RapServer:
    """A tool server that speaks RAP, as an agent's author configures it.

    ``url`` is its base URL. ``Refused`` for settings that cannot work.
    """

    url: str
    _: dataclasses.KW_ONLY
    token: str | None = dataclasses.field(default=None, repr=False)
    """Sent as a bearer token to the origin of ``url`` and to ``token_origins``, nowhere else."""
    timeout: float = 10.0
    """Seconds that the server may take to answer one request; it acknowledges calls at once."""
    call_timeout: float = 0.0
    """Seconds after which the runtime settles a call by itself; 0: never."""
    share_user: bool = False
    """Tell the server which user a call is for."""
    allow: tuple[str, ...] | None = None
    """Only these of its tools are offered; None: all."""
    deny: tuple[str, ...] = ()
    """These of its tools are not offered."""
    pin: str = ""
    """``sha256:`` and the hex digest that its manifest must have."""
    allow_http: bool = False
    """Plain http although the server is on another machine."""
    private_hosts: tuple[str, ...] = ()
    """Hosts its endpoint may name although they have addresses that are not public."""
    token_origins: tuple[str, ...] = ()
    """Further origins that get the token, such as ``https://calls.tools.test``."""
    secret: str | bytes | Sequence[str | bytes] | None = dataclasses.field(default=None, repr=False)
    """With a secret (``whsec_…``), each request to the server is signed, and what it sends must be. Of
    several the first one signs and all verify, so that secrets can be changed without a gap."""
    tolerance: float = TOLERANCE
    """Seconds by which the time of a signature may differ from ours."""
    secrets: Secrets | None = dataclasses.field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.url, str):
            raise Refused("A tool server's URL must be text.")
        check_url(self.url, allow_http=self.allow_http, what="A tool server's URL")
        for name in ("timeout", "call_timeout"):
            _check_seconds(name, getattr(self, name))
        if self.token is not None and not _is_token(self.token):
            raise Refused("A tool server's token must be non-empty printable ASCII without spaces.")
        if self.pin and not _PIN.fullmatch(self.pin):
            raise Refused("A pin must be 'sha256:' and 64 hexadecimal digits in lower case.")
        checked_tolerance(self.tolerance)
        if self.secret is not None:
            listed = (self.secret,) if isinstance(self.secret, str | bytes) else tuple(self.secret)
            object.__setattr__(self, "secret", listed)
            object.__setattr__(self, "secrets", Secrets(listed, self.tolerance))
        parts = urlsplit(self.url)
        tidy = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), parts.query, ""))
        object.__setattr__(self, "url", tidy)
        for name in ("allow", "deny", "private_hosts", "token_origins"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))

    @property
    def address(self) -> str:
        """What the server is called in agents, threads and calls."""
        return self.url

    def at(self, path: str) -> str:
        """The URL of one of the server's own paths; a query of the base URL is kept."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path + path, parts.query, ""))

    @property
    def reach(self) -> frozenset[str]:
        """The hosts that requests for this server may find at addresses which are not public."""
        return reach(self.url, self.private_hosts)

    def token_for(self, url: str) -> str | None:
        """The token, if ``url`` is of an origin that may have it."""
        trusted = {origin_of(one) for one in (self.url, *self.token_origins)}
        return self.token if origin_of(url) in trusted else None

    def offers(self, tool: str) -> bool:
        """Whether a tool of this name is allowed and not denied."""
        return tool not in self.deny and (self.allow is None or tool in self.allow)


def _check_seconds(name: str, value: object) -> None:
    least = "0" if name == "call_timeout" else "more than 0"
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or value < 0 or (value == 0 and name == "timeout"):  # type: ignore[operator]
        raise Refused(f"{name} must be a finite number of seconds, at least {least}.")


def _is_token(token: object) -> bool:
    return (
        isinstance(token, str)
        and token.isascii()
        and token.isprintable()
        and bool(token.strip())
        and " " not in token
    )


def _names(name: str, value: Any) -> tuple[str, ...] | None:
    if value is None and name == "allow":
        return None
    if isinstance(value, str) or not all(isinstance(one, str) for one in value):
        raise Refused(f"{name} must be a sequence of texts.")
    return tuple(value)


ToolServer = RapServer | McpServer
"""A tool server of any kind, as configured."""


class Manifest(msgspec.Struct, frozen=True, eq=False):
    """A checked manifest. ``hash`` is the sha256 of its bytes in hex."""

    name: str
    endpoint: str
    hash: str
    tools: tuple[ToolSpec, ...]
    """With an empty ``server``: the same manifest may come from several."""
    needs_migration: bool = False
    """Its server keeps state of sessions, which it must be told to move."""
    warnings: tuple[str, ...] = ()


class Catalog(msgspec.Struct, frozen=True, eq=False):
    """All tools of an agent by name, and what is wrong with those that are not offered."""

    tools: dict[str, ToolSpec]
    problems: tuple[str, ...] = ()


def manifest_hash(body: bytes) -> str:
    """The hash under which a manifest is kept."""
    return hashlib.sha256(body).hexdigest()


def read_manifest(body: bytes, hash: str = "") -> Manifest:
    """A manifest from its bytes, checked whole. ``Refused``, naming every defect, if it cannot be used.

    The process remembers the result by hash; if it knows ``hash`` already, it does not look at ``body``.
    """
    hash = hash or manifest_hash(body)
    return _manifests.get(hash) or _manifests.put(hash, _checked(body, hash))


def known_manifest(hash: str) -> Manifest | None:
    """A manifest that this process has read before, or None."""
    return _manifests.get(hash)


def tools_of(manifest: Manifest | bytes, server: ToolServer) -> list[ToolSpec]:
    """The tools that a server's manifest offers, as far as the server's settings allow them.

    ``Refused`` if the manifest or its endpoint cannot be used.
    """
    if isinstance(manifest, bytes):
        manifest = read_manifest(manifest)
    check_for(manifest, server)
    # A bridge keeps the time of a call itself: it knows when the call only waits for a person.
    timeout = server.call_timeout if isinstance(server, RapServer) else 0.0
    return [
        msgspec.structs.replace(spec, server=server.address, timeout=timeout)
        for spec in manifest.tools
        if server.offers(spec.name)
    ]


def check_for(manifest: Manifest, server: ToolServer) -> None:
    """Raise ``Refused`` unless a manifest is one that this server may have: its endpoint and its pin."""
    if isinstance(server, McpServer):
        if manifest.endpoint != server.address:
            raise Refused(f"The manifest of {server.address} is that of another server.")
        return
    check_url(manifest.endpoint, allow_http=server.allow_http, what=f"The endpoint of {server.url}")
    if server.pin and not hmac.compare_digest(server.pin, f"sha256:{manifest.hash}"):
        raise Refused(f"The manifest of {server.url} is not the pinned one: it has sha256:{manifest.hash}.")


def assemble(
    functions: Iterable[ToolSpec],
    builtins: Iterable[ToolSpec],
    manifests: Sequence[tuple[ToolServer, Manifest | bytes]] = (),
) -> Catalog:
    """All tools of an agent by name.

    Two sources of one name: neither is offered, and a problem names both, but a tool of an MCP server gives
    way: the server's name goes before its own. A built-in always keeps its name. A manifest that cannot be
    used is a problem, and none of its tools is offered.
    """
    tools = {spec.name: spec for spec in builtins}
    sources = dict.fromkeys(tools, BUILTIN)
    problems: list[str] = []
    clashes: set[str] = set()
    for spec, source in _apart(_offered(functions, manifests, problems), manifests):
        if spec.name in RESERVED or sources.get(spec.name) == BUILTIN:
            problems.append(f"Tool {spec.name!r} of {source} is not offered: the name is reserved.")
        elif spec.name in sources:
            clashes.add(spec.name)
            problems.append(
                f"Tool {spec.name!r} is not offered: both {sources[spec.name]} and {source} define it."
            )
        else:
            tools[spec.name], sources[spec.name] = spec, source
    for name in clashes:
        del tools[name]
    return Catalog(tools, tuple(problems))


def _apart(
    offered: Iterable[tuple[ToolSpec, str]], manifests: Sequence[tuple[ToolServer, Manifest | bytes]]
) -> Iterable[tuple[ToolSpec, str]]:
    """Tools by names of which only those can be the same that nobody may change."""
    servers = {server.address: server for server, _ in manifests if isinstance(server, McpServer)}
    listed = list(offered)
    counts = Counter(spec.name for spec, _ in listed)
    for spec, source in listed:
        server = servers.get(spec.server)
        if server is not None and counts[spec.name] > 1:
            yield msgspec.structs.replace(spec, name=server.prefixed(spec.name)), source
        else:
            yield spec, source


def _offered(
    functions: Iterable[ToolSpec],
    manifests: Sequence[tuple[ToolServer, Manifest | bytes]],
    problems: list[str],
) -> Iterable[tuple[ToolSpec, str]]:
    for spec in functions:
        yield spec, f"the function {spec.name}"
    for server, manifest in manifests:
        try:
            for spec in _tools(manifest, server):
                yield spec, server.address
        except Refused as error:
            problems.append(f"No tool of {server.address} is offered: {error}")


def _tools(manifest: Manifest | bytes, server: ToolServer) -> list[ToolSpec]:
    """``tools_of``, remembered on what it depends on."""
    if isinstance(manifest, bytes):
        manifest = read_manifest(manifest)
    key = (manifest.hash, server)
    found = _specs.get(key)
    return found if found is not None else _specs.put(key, tools_of(manifest, server))


def _checked(body: bytes, hash: str) -> Manifest:
    wire = parse_manifest(body)
    defects = list(wire.defects)
    for tool in wire.tools:
        defects += _defects_of(tool)
    defects += _doubles(tool.name for tool in wire.tools if tool.name)
    if wire.endpoint and not is_bridged(wire.endpoint):
        try:
            check_url(wire.endpoint, allow_http=True, what="'endpoint'")
        except Refused as error:
            defects.append(str(error).rstrip("."))
    if defects:
        more = f"; and {len(defects) - DEFECTS_SHOWN} more" if len(defects) > DEFECTS_SHOWN else ""
        raise Refused(f"Its manifest cannot be used: {'; '.join(defects[:DEFECTS_SHOWN])}{more}.")
    announces = not set(FEATURES).isdisjoint(wire.features)
    tools = tuple(_spec(tool, announces=announces) for tool in wire.tools)
    warnings = tuple(
        f"tool {tool.name!r} has letters outside ASCII, which some models refuse"
        for tool in tools
        if not tool.name.isascii()
    )
    return Manifest(wire.name, wire.endpoint, hash, tools, wire.needs_migration, warnings)


def _defects_of(tool: WireTool) -> list[str]:
    defects = []
    if tool.name:
        where = f"tool {tool.name[:NAME_LIMIT]!r}"
        if len(tool.name) > NAME_LIMIT:
            defects.append(f"the name of {where} … has more than {NAME_LIMIT} characters")
        if not all(map(_may_name, tool.name)):
            defects.append(f"the name of {where} has other characters than letters, digits, '_' and '-'")
        defects += [f"'inputSchema' of {where}: {problem}" for problem in check_schema(tool.schema)]
    return defects


def _may_name(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in "_-"
    return character.isprintable() and not character.isspace()


def _doubles(names: Iterable[str]) -> list[str]:
    counts = Counter(names)
    return [f"tool {name!r} is defined {count} times" for name, count in counts.items() if count > 1]


def _spec(tool: WireTool, *, announces: bool) -> ToolSpec:
    schema = tool.schema if "type" in tool.schema else {"type": "object", **tool.schema}
    repeat = "safe" if tool.read_only else "keyed" if tool.idempotent or announces else "unsafe"
    check = compile_schema(schema)
    return ToolSpec(tool.name, tool.description, schema, check, repeat=repeat, destructive=tool.destructive)


class _Kept(Generic[K, V]):
    """The values used last, at most ``KEPT``."""

    def __init__(self) -> None:
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def put(self, key: K, value: V) -> V:
        with self._lock:
            self._values[key] = value
            if len(self._values) > KEPT:
                self._values.popitem(last=False)
            return value


_manifests: _Kept[str, Manifest] = _Kept()
_specs: _Kept[tuple[str, ToolServer], list[ToolSpec]] = _Kept()
