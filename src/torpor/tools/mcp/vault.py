"""Small values kept sealed in the store: tokens, and what is needed to get them.

With a secret of the operator's (``TORPOR_SECRET``) nobody reads them who has the store alone. Without one the
key lies in the store too: then they are only kept from being read by accident, in a listing or an extract.
"""

import asyncio
import hashlib
import logging
import secrets
from typing import TYPE_CHECKING

from torpor.core.errors import Refused
from torpor.ports import Side
from torpor.tools.tokens import SPACE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

STORED = "vault"
"""Name of the key that lies in the store, beside those of the callback tokens."""
SECRET_LEAST = 16
"""Characters that a secret has at least."""

_FORM = b"\x01"
_MARK_BYTES = 8
_NONCE_BYTES = 12
_SALT = b"torpor vault 1"

logger = logging.getLogger(__name__)


class Missing(Refused):
    """What values are sealed with is not installed."""


class Vault:
    """Seals values under a space and key of the store, and opens them there only."""

    def __init__(self, side: Side, keys: dict[bytes, "AESGCM"], sealing: bytes) -> None:
        self._side = side
        self._keys = keys
        self._sealing = sealing

    @classmethod
    async def open(cls, side: Side, secret: str = "") -> "Vault":
        """The vault of a store. ``secret``: one or several, separated by commas; the first one seals.

        ``Refused`` for a secret that is too short, ``Missing`` where there is nothing to seal with.
        """
        own = [one.strip() for one in secret.split(",") if one.strip()]
        if any(len(one) < SECRET_LEAST for one in own):
            raise Refused(f"TORPOR_SECRET must have at least {SECRET_LEAST} characters, best random ones.")
        raw = [await asyncio.to_thread(_derived, one) for one in own]
        stored = await side.get(SPACE, STORED)
        if not raw and not stored:
            stored = await side.put_new(SPACE, STORED, secrets.token_bytes(32))
        raw += [stored] if stored else []
        return cls(side, {_mark(key): _cipher(key) for key in raw}, _mark(raw[0]))

    async def put(self, space: str, key: str, value: bytes) -> None:
        """Keep a value; the last one wins. An empty one takes away what was there."""
        await self._side.put(space, key, self.seal(space, key, value) if value else b"")

    async def put_new(self, space: str, key: str, value: bytes) -> bytes | None:
        """Keep a value unless there is one; gives the one that is kept now, None if it cannot be opened."""
        return self.unseal(space, key, await self._side.put_new(space, key, self.seal(space, key, value)))

    async def get(self, space: str, key: str) -> bytes | None:
        """A value; None if there is none, or if it was sealed with a secret that is not known here."""
        return self.unseal(space, key, await self._side.get(space, key) or b"")

    def seal(self, space: str, key: str, value: bytes) -> bytes:
        """A value as it is kept at its place."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._keys[self._sealing].encrypt(nonce, value, _place(space, key))
        return _FORM + self._sealing + nonce + sealed

    def unseal(self, space: str, key: str, sealed: bytes) -> bytes | None:
        """What was sealed for this place; None for anything else."""
        if not sealed:
            return None
        from cryptography.exceptions import InvalidTag

        mark, rest = sealed[1 : 1 + _MARK_BYTES], sealed[1 + _MARK_BYTES :]
        cipher = self._keys.get(mark) if sealed.startswith(_FORM) else None
        if cipher is None:
            logger.warning("%s: a value was sealed with a secret that is not known here", space)
            return None
        try:
            return cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _place(space, key))
        except (InvalidTag, ValueError):
            logger.warning("%s: a value was changed, or is not from this place", space)
            return None


def _derived(secret: str) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=_SALT, n=1 << 14, r=8, p=1, dklen=32)


def _mark(key: bytes) -> bytes:
    """What tells keys apart without telling them."""
    return hashlib.sha256(b"torpor vault mark\x00" + key).digest()[:_MARK_BYTES]


def _place(space: str, key: str) -> bytes:
    return f"{space}\x00{key}".encode()


def _cipher(key: bytes) -> "AESGCM":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise Missing("Tokens for MCP servers cannot be kept: install torpor[mcp].") from None
    return AESGCM(key)
