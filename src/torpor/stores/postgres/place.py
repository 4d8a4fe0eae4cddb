"""Where a PostgreSQL store is, and how connections to it are made."""

from typing import Any
from urllib.parse import parse_qsl, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from torpor.core.errors import Refused

POOL = 8
"""Connections of one process, where the URL names no other number."""
MOST = 500

STATEMENT_SECONDS = 30
LOCK_SECONDS = 10
IDLE_SECONDS = 30

_OPTIONS = {
    "statement_timeout": f"{STATEMENT_SECONDS}s",
    "lock_timeout": f"{LOCK_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    "default_transaction_isolation": r"read\ committed",
    "default_transaction_read_only": "off",
    "extra_float_digits": "1",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
"""Of a session, given as it begins: a proxy may hand each transaction to another session."""

_WIRE = {
    "connect_timeout": "5",
    "application_name": "torpor",
    "client_encoding": "UTF8",
    "target_session_attrs": "read-write",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
"""A server that is gone without a word is noticed in seconds; one that is read-only is passed over."""

_EXAMPLE = "postgresql://user:password@host:5432/database"


class Place:
    """What a URL says. It is shown without its password."""

    def __init__(self, url: str) -> None:
        given = _without_ours(url)
        self.pool = _number(given.get("pool", ""))
        self._given = _read(given["url"])
        self.plain = False
        """Sessions begin without options, since something in between takes none."""

    @property
    def conninfo(self) -> str:
        """For ``connect``; holds the password."""
        words = _WIRE | self._given
        if not self.plain:
            ours = " ".join(f"-c {name}={value}" for name, value in _OPTIONS.items())
            words["options"] = f"{ours} {self._given.get('options') or ''}".strip()
        return make_conninfo("", **words)

    def __str__(self) -> str:
        user, host, port = (str(self._given.get(name) or "") for name in ("user", "host", "port"))
        database = str(self._given.get("dbname") or user)
        who = f"{user}@" if user else ""
        return f"postgresql://{who}{host}{f':{port}' if port else ''}/{database}"

    def __repr__(self) -> str:
        return f"Place({str(self)!r})"


def _without_ours(url: str) -> dict[str, str]:
    """The URL as libpq takes it, and what of its query is ours."""
    address, _, query = url.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise Refused(f"The query of the PostgreSQL URL cannot be read: write {_EXAMPLE}?pool=8.") from None
    theirs = [(name, value) for name, value in pairs if name != "pool"]
    pools = [value for name, value in pairs if name == "pool"]
    # libpq reads a plus sign as itself.
    text = urlencode(theirs).replace("+", "%20")
    return {"url": f"{address}?{text}" if text else address, **({"pool": pools[-1]} if pools else {})}


def _read(url: str) -> dict[str, Any]:
    """What libpq makes of a URL."""
    try:
        given: dict[str, Any] = conninfo_to_dict(url)
        if all(part.isdecimal() for part in str(given.get("port") or 0).split(",") if part):
            return given
    except psycopg.Error:
        pass
    raise Refused(f"This is no URL of a PostgreSQL database: write {_EXAMPLE}.")


def _number(text: str) -> int:
    if not text:
        return POOL
    if text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= MOST:
        return int(text)
    raise Refused(f"pool in a PostgreSQL URL is a number of connections from 1 to {MOST}, not {text[:40]!r}.")
