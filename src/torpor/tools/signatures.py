"""Signed messages, as Standard Webhooks defines them: HMAC-SHA256 over id, time and the body's own bytes.

A signature says who sent a body and when. Whoever checks it also has to remember the ids that it has taken,
for as long as their time is accepted, so that a captured message has no second effect.
"""

import base64
import binascii
import hashlib
import hmac
import math
import re
from collections.abc import Iterable, Sequence

import msgspec

from torpor.core.errors import Refused

ID = "webhook-id"
TIMESTAMP = "webhook-timestamp"
SIGNATURE = "webhook-signature"
HEADERS = (ID, TIMESTAMP, SIGNATURE)

TOLERANCE = 300.0
"""Seconds by which the time of a message may differ from ours."""
PREFIX = "whsec_"
KEY_BYTES = 24
"""The shortest key that is used."""
LISTED = 16
"""Signatures of one message that are looked at."""

_TIME = re.compile(r"[0-9]{1,12}", re.ASCII)
_ID = re.compile(r"[\x21-\x7e]{1,256}")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")


class Unsigned(Refused):
    """A message without a valid signature. Its text says no more than who may know."""


class Verified(msgspec.Struct, frozen=True):
    """A message that was signed: its id, and the number of the secret that had signed it, from 0."""

    id: str
    secret: int


class Secrets:
    """The secrets of one peer. The first one signs, all of them verify.

    Each is ``whsec_`` and base64 of the key, as other implementations write it; other text, and bytes, are
    the key themselves. A key has at least 24 bytes. ``Refused`` for what cannot work.
    """

    def __init__(self, given: str | bytes | Sequence[str | bytes], tolerance: float = TOLERANCE) -> None:
        listed = [given] if isinstance(given, str | bytes) else list(given)
        if not listed:
            raise Refused("There must be at least one secret.")
        self._keys = [_key(one) for one in listed]
        if len(set(self._keys)) < len(self._keys):
            raise Refused("A secret is given twice.")
        self.tolerance = checked_tolerance(tolerance)

    def __repr__(self) -> str:
        return f"Secrets({len(self._keys)})"

    def sign(self, id: str, at: float, body: bytes) -> dict[str, str]:
        """The headers of a message that is sent at an instant. A message that is sent again keeps its id."""
        id, time = _NOT_IN_IDS.sub("-", id), str(int(at))
        mac = base64.b64encode(_mac(self._keys[0], id, time, body)).decode()
        return {ID: id, TIMESTAMP: time, SIGNATURE: f"v1,{mac}"}

    def verify(self, headers: Iterable[tuple[str, str]], body: bytes, now: float) -> Verified:
        """Check a message by all its headers and by its bytes as they came. ``Unsigned`` if it is not valid.

        Each of the three headers must come once; of several signatures in one header any may be the right
        one. All secrets are tried, whichever matches.
        """
        id, time, signatures = _three(headers)
        if not _ID.fullmatch(id) or not _TIME.fullmatch(time):
            raise Unsigned("The headers of the signature cannot be read.")
        if not abs(now - int(time)) <= self.tolerance:
            raise Unsigned("The signature is too old, or of a time to come.")
        given = [one[3:].encode(errors="replace") for one in signatures.split(" ") if one.startswith("v1,")][
            :LISTED
        ]
        matching = [
            number
            for number, key in enumerate(self._keys)
            if _is_among(base64.b64encode(_mac(key, id, time, body)), given)
        ]
        if not matching:
            raise Unsigned("The signature is not valid.")
        return Verified(id, matching[0])


def checked_tolerance(seconds: object) -> float:
    """A tolerance that does check something: a finite number of seconds above 0. ``Refused`` otherwise."""
    fits = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
    if not fits or seconds <= 0:  # type: ignore[operator]
        raise Refused("A signature's tolerance must be a finite number of seconds above 0.")
    return float(seconds)  # type: ignore[arg-type]


def is_signed(headers: Iterable[tuple[str, str]]) -> bool:
    """Whether a message carries a signature, valid or not."""
    return any(name.lower() == SIGNATURE for name, _ in headers)


def _three(headers: Iterable[tuple[str, str]]) -> tuple[str, str, str]:
    found: dict[str, str] = {}
    for written, value in headers:
        name = written.lower()
        if name not in HEADERS:
            continue
        if name in found:
            raise Unsigned(f"The header {name} comes more than once.")
        found[name] = value
    if len(found) < len(HEADERS):
        raise Unsigned("The message is not signed.")
    return found[ID], found[TIMESTAMP], found[SIGNATURE]


def _is_among(expected: bytes, given: Sequence[bytes]) -> bool:
    # All are compared, as bytes and in constant time: how long that takes tells nothing.
    return sum(hmac.compare_digest(expected, one) for one in given) > 0


def _mac(key: bytes, id: str, time: str, body: bytes) -> bytes:
    return hmac.digest(key, f"{id}.{time}.".encode() + body, hashlib.sha256)


def _key(secret: object) -> bytes:
    if not isinstance(secret, str | bytes):
        raise Refused("A secret must be text or bytes.")
    key = secret if isinstance(secret, bytes) else _key_of(secret)
    if len(key) < KEY_BYTES:
        raise Refused(
            f"A secret's key has {len(key)} bytes and must have at least {KEY_BYTES}. "
            "Make one: whsec_ and the output of `openssl rand -base64 32`."
        )
    return key


def _key_of(secret: str) -> bytes:
    if secret.startswith(PREFIX):
        encoded = secret.removeprefix(PREFIX)
        try:
            return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        except (binascii.Error, ValueError):
            pass  # no base64: the key is what stands there
    return secret.encode("utf-8", "surrogatepass")
