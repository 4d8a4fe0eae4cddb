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
from typing import Any, get_type_hints
from urllib.parse import urlsplit

import msgspec

from torpor.core.errors import Refused

FILE = "torpor.toml"
PREFIX = "TORPOR_"
CONFIG = "TORPOR_CONFIG"
"""Names the file to read, instead of ``torpor.toml`` in the current folder."""

LARGEST_FILE = 64 * 1024
"""Bytes of a settings file."""
_DEEP_KEY = re.compile(r"(?:[\w-]{1,64}[ \t]{0,8}\.[ \t]{0,8}){32}")
"""A dotted key that costs its reader the square of its length in time and memory."""

LARGEST_PORT = 65_535
LEVELS = ("debug", "info", "warning", "error")
LATER = ("postgresql", "postgres")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a process of ours runs. Paths and store URLs are relative to the current folder."""

    store: str = "sqlite:///torpor.db"
    """``memory:`` or ``sqlite:///path``."""
    listen: str = "127.0.0.1:8377"
    """``host:port`` of the server; port 0 takes a free one."""
    public_url: str = ""
    """How tool servers and browsers reach the server, if not by the address it listens on."""
    workers: int = 8
    """Slices that run side by side in one process; 0: none."""
    agents: tuple[str, ...] = ()
    """References to agents, ``package.module:name``."""
    token_file: str = ""
    """The file with the API token; empty: beside the store's file, its name with ``.token`` added."""
    lease: float = 15.0
    """Seconds for which a worker holds a thread before it renews."""
    claim: float = 30.0
    """Seconds for which a process holds an effect before it renews."""
    body_limit: int = 16 * 1024 * 1024
    """Bytes of one request's body that the API takes."""
    log_level: str = "info"
    """``debug``, ``info``, ``warning`` or ``error``."""

    def __post_init__(self) -> None:
        check_store(self.store)
        parse_listen(self.listen)
        _check_public(self.public_url)
        _check_number("workers", self.workers, 0, 1_024)
        _check_number("lease", self.lease, 1.0, 3_600.0)
        _check_number("claim", self.claim, 1.0, 3_600.0)
        _check_number("body_limit", self.body_limit, 1_024, 1 << 30)
        _check_choice("log_level", self.log_level, LEVELS)
        for ref in self.agents:
            _check_agent(ref)

    @property
    def token_path(self) -> Path | None:
        """Where this store's API token is kept; None for a store that is no file, if nothing names one."""
        if self.token_file:
            return Path(self.token_file)
        path = store_path(self.store)
        return path.with_name(f"{path.name}.token") if path else None


FIELDS = Settings.__struct_fields__
KINDS: dict[str, Any] = get_type_hints(Settings)
WANTED = {
    str: "text",
    int: "a whole number",
    float: "a number",
    tuple[str, ...]: 'a list of texts, such as ["package.module:name"]',
}


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


def check_store(url: object) -> None:
    """Raise ``Refused`` unless this is the URL of a store that there is. Never repeats a password."""
    if not isinstance(url, str):
        raise Refused(f"The store is given as text, such as sqlite:///agents.db, not {_shown(url)}.")
    scheme, colon, _ = url.partition(":")
    if url and not colon:
        raise Refused(f"{url[:200]!r} names no kind of store: write sqlite:///{url[:200]}, or memory:.")
    if scheme in LATER:
        raise Refused("A PostgreSQL store is not in this release. Use sqlite:///path or memory:.")
    if url == "memory:" or (url.startswith("sqlite:///") and url.removeprefix("sqlite:///").strip()):
        return
    if scheme == "sqlite":
        raise Refused(f"The store {url!r} names no file: write sqlite:///path, or sqlite:////absolute/path.")
    raise Refused(f"There is no store of the kind {scheme[:40]!r}. Known: memory:, sqlite:///path.")


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
    known = [PREFIX + field.upper() for field in FIELDS]
    _check_known(given, [*known, CONFIG], "There is no setting")
    values: dict[str, Any] = {
        field: given[name] for field, name in zip(FIELDS, known, strict=True) if name in given
    }
    if "agents" in values:
        values["agents"] = [ref.strip() for ref in values["agents"].split(",") if ref.strip()]
    return _typed(values, PREFIX)


def _typed(values: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Values of the kinds that the settings have; ``place`` and the name say where a wrong one stands."""
    found = {}
    for field, value in values.items():
        kind = KINDS[field]
        try:
            found[field] = msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError:
            name = place + (field.upper() if place == PREFIX else field)
            raise Refused(f"{name} must be {WANTED[kind]}, not {_shown(value)}.") from None
    return found


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
