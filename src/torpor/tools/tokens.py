"""Callback tokens: signed, naming thread, call and scope, without a clock.

A token lives as long as what it names is open, which is for its reader to judge. The keys that sign are a
ring kept in the store, so that all processes agree: the newest signs, all verify. ``rotate`` adds one;
``retire`` drops an old one, once nothing open was signed with it.

A process reads the ring again before it signs for a call, when a token names a key that it does not know,
and else once in ``KNOWN_FOR`` seconds while tokens come: for so long at most another process may still accept
a key that was retired.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable

import msgspec

from torpor.core.errors import Refused, Unavailable
from torpor.ports import Side

SPACE = "keys"
TOKEN_LIMIT = 1_024
"""Characters of the longest token that is looked at."""

KNOWN_FOR = 30.0
"""Seconds for which what was read of the ring is relied on when tokens are checked."""

_KEY_BYTES = 32
_MAC_BYTES = 16
_PURPOSE = b"torpor callback 1\x00"
_PROOF = b"torpor store 1\x00"
_CHALLENGE_LIMIT = 100
_KEY = re.compile(r"k[1-9][0-9]{0,8}")
_SHAPE = re.compile(r"k([1-9][0-9]{0,8})\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{22})")
_REFUSAL = "The callback token is not valid."

_payload: msgspec.msgpack.Decoder[tuple[str, str, str]] = msgspec.msgpack.Decoder(tuple[str, str, str])


class Token(msgspec.Struct, frozen=True):
    """What a valid token says, and which key signed it."""

    thread: str
    call: str
    scope: str
    """What it is for: ``call``, or that and the mark of a tool server, which must then sign what it sends."""
    key_id: str

    @property
    def server(self) -> str:
        """The mark of the tool server that it was made for, where that one signs; else empty."""
        return self.scope.partition("@")[2]


def mark_of(server: str) -> str:
    """A short mark of a tool server's base URL."""
    return hashlib.sha256(server.encode()).hexdigest()[:16]


def scope_of(server: str) -> str:
    """The scope of tokens for a tool server that signs what it sends."""
    return f"call@{mark_of(server)}"


class Keys:
    """The ring of keys. Made with ``await Keys.open(side)``.

    ``passed`` tells seconds that pass, from any beginning.
    """

    def __init__(
        self,
        side: Side,
        fresh: Callable[[int], bytes] = secrets.token_bytes,
        passed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._side = side
        self._fresh = fresh
        self._passed = passed
        self._ring: dict[int, bytes] = {}
        self._read_at = float("-inf")

    @classmethod
    async def open(
        cls,
        side: Side,
        fresh: Callable[[int], bytes] = secrets.token_bytes,
        passed: Callable[[], float] = time.monotonic,
    ) -> "Keys":
        """The ring that this store keeps; its first key is made if there is none.

        ``fresh`` gives that many random bytes.
        """
        keys = cls(side, fresh, passed)
        await keys.refresh()
        if not keys.ids:
            await side.put_new(SPACE, "k1", fresh(_KEY_BYTES))
            await keys.refresh()
        return keys

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all keys that verify, oldest first; the last one signs."""
        return tuple(f"k{number}" for number in sorted(self._ring))

    async def refresh(self) -> None:
        """Learn what other processes have added and retired."""
        now = self._passed()
        self._ring = {number: key for number, key in (await self._all()).items() if key}
        self._read_at = now

    async def rotate(self) -> str:
        """Add a key that signs from now on; gives its id. Two processes that rotate at once agree on one."""
        newest = f"k{max(await self._all(), default=0) + 1}"
        await self._side.put_new(SPACE, newest, self._fresh(_KEY_BYTES))
        await self.refresh()
        return newest

    async def retire(self, key_id: str) -> None:
        """Drop a key for good: its tokens are refused from now on. ``Refused`` for the key that signs.

        Only for a key that no open call and no subscription names any more; that is the caller's to know.
        Other processes may accept it for ``KNOWN_FOR`` seconds more.
        """
        await self.refresh()
        if key_id not in self.ids:
            raise Refused(f"There is no key {key_id!r}; known: {', '.join(self.ids)}.")
        if key_id == self.ids[-1]:
            raise Refused(f"{key_id} signs new tokens; rotate first.")
        await self._side.put(SPACE, key_id, b"")
        await self.refresh()

    async def _all(self) -> dict[int, bytes]:
        """All keys by number; a retired one is empty, so that its number is never given again."""
        entries = await self._side.entries(SPACE)
        return {int(name[1:]): key for name, key in entries.items() if _KEY.fullmatch(name)}

    async def sign(self, thread: str, call: str, scope: str = "call") -> str:
        """A token for a call, by the newest key that there is now."""
        await self.refresh()
        return self.mint(thread, call, scope)

    def mint(self, thread: str, call: str, scope: str = "call") -> str:
        """A token for a call: URL-safe text, by the newest key known. ``Unavailable`` if there is none."""
        if not self._ring:
            raise Unavailable("The store has no key to sign callback tokens with.")
        number = max(self._ring)
        payload = _text(msgspec.msgpack.encode((thread, call, scope)))
        return f"k{number}.{payload}.{_mac(self._ring[number], f'k{number}', payload)}"

    def proof(self, challenge: str) -> str:
        """What only a process of this store can answer to a challenge; empty without one."""
        if not challenge or not self._ring:
            return ""
        number = max(self._ring)
        return _proof(self._ring[number], f"k{number}", challenge)

    async def proves(self, challenge: str, answer: str) -> bool:
        """Whether an answer to a challenge came from a process of this store."""
        await self.refresh()
        told = (_proof(key, f"k{number}", challenge) for number, key in self._ring.items())
        return any(hmac.compare_digest(answer.encode(), one.encode()) for one in told)

    async def read(self, token: str) -> Token:
        """What a token says. ``Refused``, without saying why, for one that no key of the ring has signed."""
        found = _SHAPE.fullmatch(token) if len(token) <= TOKEN_LIMIT else None
        if found is None:
            raise Refused(_REFUSAL)
        number, payload, mac = int(found[1]), found[2], found[3]
        if number not in self._ring or self._passed() - self._read_at >= KNOWN_FOR:
            await self.refresh()
        key = self._ring.get(number)
        if key is None or not hmac.compare_digest(mac.encode(), _mac(key, f"k{number}", payload).encode()):
            raise Refused(_REFUSAL)
        try:
            thread, call, scope = _payload.decode(
                base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
            )
        except (msgspec.MsgspecError, binascii.Error):
            raise Refused(_REFUSAL) from None
        return Token(thread, call, scope, f"k{number}")


def _proof(key: bytes, key_id: str, challenge: str) -> str:
    said = _PROOF + f"{key_id}.{challenge[:_CHALLENGE_LIMIT]}".encode()
    return f"{key_id}.{hmac.new(key, said, hashlib.sha256).hexdigest()}"


def _mac(key: bytes, key_id: str, payload: str) -> str:
    signed = _PURPOSE + f"{key_id}.{payload}".encode()
    return _text(hmac.digest(key, signed, hashlib.sha256)[:_MAC_BYTES])


def _text(body: bytes) -> str:
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()
