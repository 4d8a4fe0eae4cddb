"""Strict reading of JSON that strangers send: no NaN, no byte order mark, no member that comes twice."""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NoReturn

from torpor.core.errors import Refused
from torpor.core.text import clean, read_json

ID_LIMIT = 256
DEEPEST = 200
"""Objects and arrays inside each other that a body may have."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Malformed(Refused):
    """A body that cannot be used. ``thread``, ``call`` and ``type`` are those it named, where readable."""

    def __init__(self, text: str, *, thread: str = "", call: str = "", type: str = "") -> None:  # noqa: A002
        super().__init__(text)
        self.thread = thread
        self.call = call
        self.type = type


class Repeating(dict[str, Any]):
    """A JSON object of which some members came more than once."""

    repeated: frozenset[str] = frozenset()


def parse_object(body: bytes | str) -> dict[str, Any]:
    """One JSON object, read strictly: UTF-8 without a byte order mark, finite numbers, not too deep.

    An object with repeated members (at any depth) comes as ``Repeating``. Raises ``Malformed``.
    """
    try:
        value = read_json(body, _members)
    except ValueError:
        raise Malformed("The body is not JSON in UTF-8.") from None
    if not isinstance(value, dict):
        raise Malformed("The body is not a JSON object.")
    if _is_deep(value):
        raise Malformed(f"The body is nested more than {DEEPEST} levels deep.")
    return value


def _is_deep(value: object) -> bool:
    """Whether a value is nested deeper than is safe to walk through, however many calls are under way."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _members_of(outer) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _members_of(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def repeated(members: dict[str, Any]) -> frozenset[str]:
    """The names of the members that came more than once."""
    return members.repeated if isinstance(members, Repeating) else frozenset()


def repeats_within(value: object) -> bool:
    """Whether any object at any depth has a member that came more than once."""
    if isinstance(value, dict):
        return isinstance(value, Repeating) or any(map(repeats_within, value.values()))
    return isinstance(value, list) and any(map(repeats_within, value))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    counts = Counter(name for name, _ in pairs)
    twice = Repeating(members)
    twice.repeated = frozenset(name for name, count in counts.items() if count > 1)
    return twice


class Reader:
    """Reads typed members of one object; each complaint names the member and carries the ids read so far."""

    def __init__(self, members: dict[str, Any], *, thread: str = "", call: str = "", type: str = "") -> None:  # noqa: A002
        self.members = members
        self.repeated = repeated(members)
        self.thread = thread
        self.call = call
        self.type = type

    def fail(self, text: str) -> NoReturn:
        """Raise ``Malformed`` with the ids that are known."""
        raise Malformed(text, thread=self.thread, call=self.call, type=self.type)

    def value(self, name: str) -> Any:
        """A member of any type; None if absent."""
        if name in self.repeated:
            self.fail(f"'{name}' comes more than once.")
        return self.members.get(name)

    def text(self, name: str) -> str:
        """A required string."""
        value = self.value(name)
        if not isinstance(value, str):
            self.fail(f"'{name}' must be a string.")
        return clean(value)

    def id(self, name: str) -> str:
        """A required id: 1 to 256 characters without control characters."""
        value = self.text(name)
        if not value or len(value) > ID_LIMIT or _CONTROL.search(value):
            self.fail(f"'{name}' must have 1 to {ID_LIMIT} characters and no control characters.")
        return value

    def flag(self, name: str) -> bool:
        """An optional boolean."""
        value = self.value(name)
        if value is not None and not isinstance(value, bool):
            self.fail(f"'{name}' must be true or false.")
        return value is True

    def index(self, name: str) -> int:
        """A required integer; neither 1.0 nor true is one."""
        value = self.value(name)
        if type(value) is not int:
            self.fail(f"'{name}' must be an integer.")
        return value

    def list(self, name: str) -> list[Any] | None:
        """An optional array; None if absent."""
        value = self.value(name)
        if value is not None and not isinstance(value, list):
            self.fail(f"'{name}' must be an array.")
        return value

    def number(self, name: str) -> int:
        """A whole number above 0 of an extension; a malformed one counts as absent, which is 0."""
        value = self.members.get(name)
        return value if type(value) is int and 0 < value < 2**53 else 0

    def instant(self, name: str) -> float:
        """An instant of an extension (RFC 3339), in seconds since the epoch; 0 if absent or malformed."""
        written = self.extension(name, 64)
        try:
            moment = datetime.fromisoformat(written)
            seconds = moment.timestamp() if moment.tzinfo else 0.0
        except (ValueError, OverflowError, OSError):
            return 0.0
        return max(0.0, seconds)

    def extension(self, name: str, most: int = 128) -> str:
        """A short string of an extension; a malformed one counts as absent."""
        value = self.members.get(name)
        usable = isinstance(value, str) and 0 < len(value) <= most and not _CONTROL.search(value)
        return clean(value) if usable and isinstance(value, str) else ""
