"""The statement that writes a slice, made of the parts that the slice has something for."""

from functools import lru_cache

from torpor.core.codec import encode
from torpor.ports import Commit
from torpor.stores.postgres.rows import Given, moved_of, signals_of
from torpor.stores.statements import statements

_SQL = statements(__package__, "sql/commit.sql")


def commit_of(commit: Commit, holder: str) -> tuple[str, Given]:
    """The statement and its parameters, but for the time."""
    given = moved_of(commit)
    parts = ["moved"]
    if commit.messages:
        parts.append("appended")
        given["positions"] = [message.position for message in commit.messages]
        given["messages"] = [message.body for message in commit.messages]
    _settle(commit, parts, given)
    if commit.effects:
        parts.append("decided")
        _decide(commit, given, holder)
    if commit.record is not None:
        parts.append("recorded")
        given["record"], given["ended"] = encode(commit.record), float(commit.record.committed_at)
    return _joined(tuple(parts)), given


def _settle(commit: Commit, parts: list[str], given: Given) -> None:
    cancelled = [id for id in commit.cancelled if id not in commit.absorbed]
    if commit.absorbed:
        parts.append("settled")
        given["absorbed"], given["outcomes"] = list(commit.absorbed), list(commit.absorbed.values())
    if cancelled:
        parts.append("cancelled")
        given["cancelled"] = cancelled
    if commit.timers:
        # A timer may take the place of one that is cancelled.
        parts.append("timed_after" if cancelled else "timed")
        given.update(signals_of(commit.timers))
        given["timers"] = given.pop("ids")


def _decide(commit: Commit, given: Given, holder: str) -> None:
    claimed = commit.claimed_until > 0
    given["effects"] = [effect.id for effect in commit.effects]
    given["decided"] = [encode(effect) for effect in commit.effects]
    given["tries"] = int(claimed)
    given["claimed_until"] = float(commit.claimed_until)
    given["holder"] = (commit.holder or holder) if claimed else ""


@lru_cache(maxsize=256)
def _joined(parts: tuple[str, ...]) -> str:
    return f"WITH {', '.join(_SQL[part] for part in parts)} {_SQL['result']}"
