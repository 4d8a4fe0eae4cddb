"""Settings: one frozen, validated value, from ``torpor.toml`` and ``TORPOR_*``.

What is given to a command wins over the environment, the environment over the file, the file over the
defaults. A key that nobody knows is an error that names the nearest one that is known.
"""

import difflib
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec

from torpor.core.errors import Refused

FILE = "torpor.toml"
PREFIX = "TORPOR_"
CONFIG = "TORPOR_CONFIG"
"""Names the file to read, instead of ``torpor.toml`` in the current folder."""
SECRET = "TORPOR_SECRET"  # noqa: S105 -- the name of it
"""Holds what tokens for MCP servers are sealed with. No setting, so that it stands in no file of ours."""

LARGEST_FILE = 64 * 1024
"""Bytes of a settings file."""
_DEEP_KEY = re.compile(r"(?:[\w-]{1,64}[ \t]{0,8}\.[ \t]{0,8}){32}")
"""A dotted key that costs its reader the square of its length in time and memory."""

_MCP_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

LARGEST_PORT = 65_535
MOST_DAYS = 36_525.0
LEVELS = ("debug", "info", "warning", "error")
POSTGRES = ("postgresql://", "postgres://")
TOKEN = "torpor.token"  # noqa: S105 -- a file's name
KNOWN = "memory:, sqlite:///path, postgresql://user:password@host:port/database"


class McpTable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An MCP server as a table ``[mcp.NAME]`` gives it: the fields of ``McpServer``, as far as they are set.

    ``${VAR}`` and ``${VAR:-default}`` in its texts stand for variables of the environment.
    """

    command: str | tuple[str, ...] | None = None
    """A program, or program and arguments."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    allow_http: bool = False
    private_hosts: tuple[str, ...] = ()
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    prefix: str = ""
    wrapped: bool = False
    repeat: dict[str, str] = {}
    needs_approval: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    sampling: bool | None = None
    elicitation: bool | None = None
    per_thread: bool | None = None
    start_timeout: float | None = None
    idle_timeout: float | None = None
    call_timeout: float | None = None
    result_limit: int | None = None
    oauth: dict[str, str] | None = None
    resources: bool = False
    prompts: bool = False

    def __repr__(self) -> str:
        return "McpTable(...)"  # headers and variables may be secrets

    def filled(self, environ: Mapping[str, str]) -> dict[str, Any]:
        """What is set, as arguments of ``McpServer``, variables replaced. ``Refused`` if one is missing."""
        given: dict[str, Any] = _filled(msgspec.to_builtins(self), environ)
        command, args = given.get("command"), given.pop("args", ())
        if isinstance(command, str):
            given["command"] = [command, *args]
        elif args:
            raise Refused("args needs a command that is a text; a list holds the arguments itself.")
        return given


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a process of ours runs. Paths and store URLs are relative to the current folder."""

    store: str = "sqlite:///torpor.db"
    """``memory:``, ``sqlite:///path`` or ``postgresql://user:password@host:port/database``."""
    listen: str = "127.0.0.1:8377"
    """``host:port`` of the server; port 0 takes a free one."""
    public_url: str = ""
    """How tool servers and browsers reach the server, if not by the address it listens on."""
    workers: int = 8
    """Slices that run side by side in one process; 0: none."""
    reserved: int = 1
    """How many of these are kept for realtime work; one of them at least takes any."""
    owner_cap: int = 0
    """Slices of one owner that run at once, in all processes together; 0: half of all that may."""
    agents: tuple[str, ...] = ()
    """References to agents, ``package.module:name``."""
    token_file: str = ""
    """The file with the API token; empty: beside the store's file, its name with ``.token`` added, or
    ``torpor.token`` here for a store that is no file."""
    lease: float = 15.0
    """Seconds for which a worker holds a thread before it renews."""
    claim: float = 30.0
    """Seconds for which a process holds an effect before it renews."""
    body_limit: int = 16 * 1024 * 1024
    """Bytes of one request's body that the API takes."""
    keep_closed_days: float = 0.0
    """Days after which a thread that was closed is erased, once nothing needs it any more; 0: never."""
    keep_records_days: float = 0.0
    """Days after which records of slices are forgotten, but the last one of each thread; 0: never."""
    keep_ids_days: float = 7.0
    """Days for which repeats of signals and idempotency keys are recognised."""
    pack_after: float = 60.0
    """Seconds after its last slice at which what a thread holds is compressed; 0: never."""
    log_level: str = "info"
    """``debug``, ``info``, ``warning`` or ``error``."""
    mcp_servers: str = ""
    """A file with MCP servers in the ``mcpServers`` JSON of other clients, for agents to name."""
    mcp: dict[str, McpTable] = {}
    """MCP servers by name, one table ``[mcp.NAME]`` each; these win over the file."""

    def __post_init__(self) -> None:
        check_store(self.store)
        parse_listen(self.listen)
        _check_public(self.public_url)
        _check_number("workers", self.workers, 0, 1_024)
        _check_number("reserved", self.reserved, 0, 1_024)
        _check_number("owner_cap", self.owner_cap, 0, 1_000_000)
        _check_number("lease", self.lease, 1.0, 3_600.0)
        _check_number("claim", self.claim, 1.0, 3_600.0)
        _check_number("body_limit", self.body_limit, 1_024, 1 << 30)
        for name in ("keep_closed_days", "keep_records_days"):
            _check_number(name, getattr(self, name), 0.0, MOST_DAYS)
        _check_number("keep_ids_days", self.keep_ids_days, 1.0, MOST_DAYS)
        _check_number("pack_after", self.pack_after, 0.0, MOST_DAYS * 86_400)
        _check_choice("log_level", self.log_level, LEVELS)
        for ref in self.agents:
            _check_agent(ref)

    @property
    def token_path(self) -> Path | None:
        """Where this store's API token is kept; None for a store that is no file, if nothing names one."""
        if self.token_file:
            return Path(self.token_file)
        if is_postgres(self.store):
            return Path(TOKEN)
        path = store_path(self.store)
        return path.with_name(f"{path.name}.token") if path else None

    def __repr__(self) -> str:
        """Without the password of the store."""
        shown = msgspec.structs.asdict(self) | {"store": shown_store(self.store)}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


FIELDS = Settings.__struct_fields__
IN_ENVIRONMENT = tuple(field for field in FIELDS if field != "mcp")
KINDS: dict[str, Any] = get_type_hints(Settings)
WANTED = {
    str: "text",
    int: "a whole number",
    float: "a number",
    tuple[str, ...]: 'a list of texts, such as ["package.module:name"]',
}
MCP_KINDS: dict[str, Any] = get_type_hints(McpTable)
MCP_WANTED = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "a list of texts",
    dict: "a table of texts",
}
OAUTH_FIELDS = ("client_id", "client_secret", "scope")


def load(
    path: str | Path | None = None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings from a file (by default ``torpor.toml`` here, if there is one), ``environ`` and ``overrides``.

    An override of None is none. Raises ``Refused`` that says which key is wrong, where, and what to write.
    """
    values = _from_file(path or environ.get(CONFIG) or None) | _from_environment(environ)
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    return Settings(**(values | _typed(given, "the option --")))


def store_path(url: str) -> Path | None:
    """The file of a SQLite store; None for other stores."""
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None


def is_postgres(url: str) -> bool:
    """Whether a URL names a PostgreSQL database."""
    return url.startswith(POSTGRES)


def shown_store(url: str) -> str:
    """A store's URL without its password."""
    if not is_postgres(url):
        return url
    scheme, _, rest = url.partition("://")
    who, at, where = rest.partition("?")[0].rpartition("@")
    return f"{scheme}://{who.partition(':')[0]}{at}{where}"


def check_store(url: object) -> None:
    """Raise ``Refused`` unless this is the URL of a store that there is. Never repeats a password."""
    if not isinstance(url, str):
        raise Refused(f"The store is given as text, such as sqlite:///agents.db, not {_shown(url)}.")
    if is_postgres(url):
        return
    scheme, colon, _ = url.partition(":")
    if url and not colon:
        raise Refused(f"{url[:200]!r} names no kind of store: write sqlite:///{url[:200]}, or memory:.")
    if scheme in ("postgresql", "postgres"):
        raise Refused("A PostgreSQL store is named postgresql://user:password@host:port/database.")
    if url == "memory:" or (url.startswith("sqlite:///") and url.removeprefix("sqlite:///").strip()):
        return
    if scheme == "sqlite":
        raise Refused(f"The store {url!r} names no file: write sqlite:///path, or sqlite:////absolute/path.")
    raise Refused(f"There is no store of the kind {scheme[:40]!r}. Known: {KNOWN}.")


def parse_listen(listen: str) -> tuple[str, int]:
    """Host and port of ``host:port``; IPv6 in brackets. Raises ``Refused``."""
    host, colon, port = listen.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    fits = bool(colon and bare and port.isascii() and port.isdigit())
    if fits and (len(port) > 5 or int(port) > LARGEST_PORT):
        raise Refused(f"{listen[:100]!r}: a port is a number from 0 to {LARGEST_PORT}; 0 takes a free one.")
    if not fits or (":" in bare and bare == host) or any(c.isspace() or c in "/@[]" for c in bare):
        raise Refused(f"{listen!r} is no address to listen on: write host:port, such as 127.0.0.1:8377.")
    return bare, int(port)


def _from_file(path: str | Path | None) -> dict[str, Any]:
    file = Path(path or FILE)
    if path is None and not file.exists():
        return {}
    try:
        values = tomllib.loads(_read(file))
    except RecursionError:
        raise Refused(f"{file} is no valid TOML: it is nested too deeply.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"{file} is no valid TOML: {error}.") from None
    except OSError as error:
        raise Refused(f"The settings file {file} cannot be read: {error.strerror}.") from None
    _check_known(values, FIELDS, f"{file}: there is no setting")
    return _typed(values, f"{file}: ")


def _read(file: Path) -> str:
    """The file's text; also something endless in its place, such as a device, is read only so far."""
    with file.open("rb") as opened:
        body = opened.read(LARGEST_FILE + 1)
    if len(body) > LARGEST_FILE:
        raise Refused(f"The settings file {file} has more than {LARGEST_FILE:,} bytes.")
    text = body.decode()
    if _DEEP_KEY.search(text):
        raise Refused(f"{file} is no valid TOML for us: a key in it is nested too deeply.")
    return text


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    given = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    known = [PREFIX + field.upper() for field in IN_ENVIRONMENT]
    _check_known(given, [*known, CONFIG, SECRET], "There is no setting")
    values: dict[str, Any] = {
        field: given[name] for field, name in zip(IN_ENVIRONMENT, known, strict=True) if name in given
    }
    if "agents" in values:
        values["agents"] = [ref.strip() for ref in values["agents"].split(",") if ref.strip()]
    return _typed(values, PREFIX)


def _typed(values: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Values of the kinds that the settings have; ``place`` and the name say where a wrong one stands."""
    found = {}
    for field, value in values.items():
        kind = KINDS[field]
        if field == "mcp":
            found[field] = _mcp_tables(value, place)
            continue
        try:
            found[field] = msgspec.convert(value, kind, strict=False)
        except (msgspec.ValidationError, UnicodeEncodeError):
            name = place + (field.upper() if place == PREFIX else field)
            raise Refused(f"{name} must be {WANTED[kind]}, not {_shown(value)}.") from None
    return found


def _mcp_tables(given: object, place: str) -> dict[str, McpTable]:
    if not isinstance(given, Mapping) or not all(isinstance(table, Mapping) for table in given.values()):
        raise Refused(f"{place}mcp must hold a table for each server, such as [mcp.github].")
    return {name: _mcp_table(name, table, f"{place}[mcp.{name}]") for name, table in given.items()}


def _mcp_table(name: str, given: Mapping[str, Any], place: str) -> McpTable:
    if not _MCP_NAME.fullmatch(name):
        raise Refused(f"{place}: the name of an MCP server is 1 to 64 letters, digits, '_' and '-'.")
    _check_known(given, McpTable.__struct_fields__, f"{place}: there is no setting")
    oauth = given.get("oauth")
    if isinstance(oauth, Mapping):
        _check_known(oauth, OAUTH_FIELDS, f"{place}: oauth has no setting")
    fields = {}
    for field, value in given.items():
        try:
            fields[field] = msgspec.convert(value, MCP_KINDS[field])
        except (msgspec.ValidationError, UnicodeEncodeError):
            raise Refused(f"{place}: {field} must be {_wanted(MCP_KINDS[field])}.") from None
    if not given.get("command") and not given.get("url"):
        raise Refused(f"{place}: it needs a command to start, or the url of a server that runs.")
    return McpTable(**fields)


def _wanted(kind: Any) -> str:
    """In words what a field takes; a value is never shown, since it may be a secret."""
    kinds = (
        [one for one in get_args(kind) if one is not type(None)] if isinstance(kind, UnionType) else [kind]
    )
    return " or ".join(MCP_WANTED[get_origin(one) or one] for one in kinds)


def _filled(value: Any, environ: Mapping[str, str]) -> Any:
    """A value with the variables in all its texts replaced."""
    if isinstance(value, dict):
        return {key: _filled(one, environ) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(one, environ) for one in value]
    return _VARIABLE.sub(lambda found: _variable(found, environ), value) if isinstance(value, str) else value


def _variable(found: re.Match[str], environ: Mapping[str, str]) -> str:
    value = environ.get(found[1]) or found[2]
    if value is None:
        raise Refused(f"the environment variable {found[1]} is not set.")
    return value


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _check_known(given: Mapping[str, Any], known: Sequence[str], sentence: str) -> None:
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(known)}."
            raise Refused(f"{sentence} {key!r}. {hint}")


def _check_number(name: str, value: float, least: float, most: float) -> None:
    if not math.isfinite(value) or not least <= value <= most:
        raise Refused(f"The setting {name} must be a number from {least:g} to {most:g}, not {value:g}.")


def _check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise Refused(f"The setting {name} is one of {', '.join(known)}, not {value!r}.")


def _check_agent(ref: str) -> None:
    module, colon, name = ref.partition(":")
    if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise Refused(f"{ref!r} is no reference to an agent; write package.module:name.")


def _check_public(url: str) -> None:
    if not url:
        return
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or parts.username is not None or parts.query or parts.fragment:
        raise Refused("public_url must be an http or https URL of a host, without credentials or query.")
