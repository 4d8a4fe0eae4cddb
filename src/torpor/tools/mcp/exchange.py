"""Codes and refresh tokens exchanged for access tokens. Nothing that passes here is put into an error."""

import re
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import quote

import msgspec

from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.tools.mcp import fetch
from torpor.tools.mcp.fetch import Answer, Bounds, Unclear, shown
from torpor.tools.mcp.metadata import SCOPE_LIMIT, Client, Issuer, is_plain

TOKEN_LIMIT = 32 * 1024
"""Characters of a token that is taken."""
LONGEST = 366 * 86_400.0

_KIND = re.compile(r"[a-z_]{1,40}")


class Rejected(Refused):
    """An authorization server did not give a token. ``kind``: its error code, as far as it is one."""

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class Token(msgspec.Struct, frozen=True):
    """What an authorization server gave."""

    access: str
    refresh: str = ""
    seconds: float = 0.0
    """For which the access token is good; 0: it does not say."""
    scope: str | None = None

    def __repr__(self) -> str:
        return "Token(...)"


class _Wire(msgspec.Struct, frozen=True):
    access_token: str = ""
    token_type: str = "Bearer"  # noqa: S105 -- a kind of token
    refresh_token: str | None = None
    expires_in: float | str | None = None
    scope: str | None = None
    error: str = ""

    def __repr__(self) -> str:
        return "_Wire(...)"


async def exchange(issuer: Issuer, client: Client, bounds: Bounds, form: Mapping[str, str]) -> Token:
    """A token for a form that names a grant.

    ``Rejected`` if it does not count; ``Unclear`` if it may have counted and nobody knows; ``Unavailable``
    if it has not been looked at, so that it may be sent again.
    """
    fields, headers = _proven(client, form)
    answer = await fetch.post(issuer.token, bounds, form=fields, headers=headers)
    where = shown(issuer.token)
    if answer.status in (502, 504):
        raise Unclear(f"{where} answered {answer.status}.")
    if answer.status >= 500 or answer.status in (408, 429):
        raise Unavailable(f"{where} answered {answer.status}.", retry_after=answer.retry_after)
    return _token(answer, where)


async def revoke(issuer: Issuer, client: Client, bounds: Bounds, token: str) -> None:
    """Tell an authorization server that a token is not needed any more, if it wants to know."""
    if issuer.revoke and token:
        fields, headers = _proven(client, {"token": token})
        with suppress(TorporError):
            await fetch.post(issuer.revoke, bounds, form=fields, headers=headers)


def _proven(client: Client, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """A form and headers that say which client sends them."""
    fields = {**form, "client_id": client.id}
    if client.method == "client_secret_post":
        return {**fields, "client_secret": client.secret}, {}
    if client.method == "client_secret_basic":
        pair = f"{quote(client.id, safe='')}:{quote(client.secret, safe='')}"
        return fields, {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
    return fields, {}


def _token(answer: Answer, where: str) -> Token:
    try:
        wire = msgspec.json.decode(answer.body, type=_Wire)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        wire = _Wire(error="no_token")
    if answer.status not in (200, 201) or not wire.access_token:
        kind = wire.error if _KIND.fullmatch(wire.error) else ""
        raise Rejected(f"{where} gave no token ({kind or answer.status}).", kind)
    tokens = [wire.access_token, *([wire.refresh_token] if wire.refresh_token else [])]
    if wire.token_type.lower() != "bearer" or not all(is_plain(one, TOKEN_LIMIT) for one in tokens):
        raise Rejected(f"{where} gave a token that cannot be used.", "unusable")
    scope = None if wire.scope is None else " ".join(wire.scope.split())[:SCOPE_LIMIT]
    return Token(wire.access_token, wire.refresh_token or "", _seconds(wire.expires_in), scope)


def _seconds(told: float | str | None) -> float:
    """A life in seconds, also where it is written as text; 0 for none that makes sense."""
    try:
        seconds = float(told or 0)
    except ValueError:
        return 0.0
    return min(seconds, LONGEST) if seconds > 0 else 0.0
