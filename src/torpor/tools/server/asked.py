"""The questions that tools ask people, as rows of the outbox.

A question is kept by its place among those of its call. So a tool that runs again after a restart, and asks
the same again, finds its question as it stands: asked already, perhaps answered.
"""

import secrets
import sqlite3
from typing import Any

import msgspec

from torpor.tools.server import calls, wire
from torpor.tools.server.owed import Retry, of_call, queue

KINDS = ("choice", "authorization")
NO_CHOICE = "the answer was not one of the choices. Run the tool again to be asked again"
UNASKED = "nobody can be asked here: the runtime did not take the question"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool asks of a person. `choices`: how many there are; 0: it asks for authorization."""

    place: int
    choices: int
    members: dict[str, Any]
    expires_at: float

    @property
    def kind(self) -> str:
        """Which kind of callback asks it."""
        return "choice" if self.choices else "authorization"


class Standing(msgspec.Struct, frozen=True):
    """What has become of a question; `state` is open, answered, expired or failed."""

    token: str
    state: str
    selected: int
    problem: str
    expires_at: float


def ask(db: sqlite3.Connection, seq: int, question: Question, retry: Retry) -> Standing | None:
    """Keep and queue a question, unless it stands there already; None if its call wants no more."""
    row = calls.by_seq(db, seq)
    if row["state"] not in ("accepted", "running") or row["cancelled"]:
        return None
    digest = wire.digest_of(question.members)
    known = _at(db, seq, question.place)
    if known is not None and known["digest"] == digest and known["state"] != "failed":
        return _standing(known)
    _withdraw(db, seq, question.place)
    token, id = secrets.token_urlsafe(24), wire.new_event_id()
    db.execute(
        "INSERT INTO questions (token, call, place, id, digest, choices, state, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, 'open', ?)",
        (token, seq, question.place, id, digest, question.choices, question.expires_at),
    )
    kept = calls.kept_of(row).invocation
    body = wire.question_body(kept, token, question.members, id, question.expires_at)
    queue(db, of_call(row, question.kind, id, body, until=question.expires_at), retry)
    return Standing(token, "open", 0, "", question.expires_at)


def standing(db: sqlite3.Connection, token: str) -> Standing | None:
    """How a question stands."""
    row = _by_token(db, token)
    return None if row is None else _standing(row)


def answer(db: sqlite3.Connection, token: str, ident: str, selected: object) -> bool:
    """Take an answer to an open question of the call `ident`; False, without effect, if there is none."""
    row = _by_token(db, token)
    if row is None or not row["choices"] or calls.by_seq(db, row["call"])["id"] != ident:
        return False
    fits = type(selected) is int and 0 <= selected < row["choices"]
    if not fits:
        return settle(db, token, "failed", problem=NO_CHOICE)
    return settle(db, token, "answered", selected=selected)


def authorized(db: sqlite3.Connection, token: str, problem: str) -> bool:
    """Settle an open question for authorization, as failed if there is a problem; False if there is none."""
    row = _by_token(db, token)
    if row is None or row["choices"]:
        return False
    return settle(db, token, "failed" if problem else "answered", problem=problem)


def settle(
    db: sqlite3.Connection, token: str, state: str, *, selected: object = 0, problem: str = ""
) -> bool:
    """Settle an open question, once; False if there is none."""
    change = "UPDATE questions SET state = ?, selected = ?, problem = ? WHERE token = ? AND state = 'open'"
    if db.execute(change, (state, selected, problem, token)).rowcount == 0:
        return False
    row = _by_token(db, token)
    assert row is not None
    _unqueue(db, row)
    return True


def end(db: sqlite3.Connection, call: int) -> None:
    """Settle what a call has open, since nobody waits for it any more."""
    for row in db.execute(
        "SELECT token FROM questions WHERE call = ? AND state = 'open'", (call,)
    ).fetchall():
        settle(db, row["token"], "failed")


def refuse(db: sqlite3.Connection, call: int, id: str) -> None:
    """Settle a question that a runtime refused to ask."""
    found = db.execute("SELECT token FROM questions WHERE call = ? AND id = ?", (call, id)).fetchone()
    if found is not None:
        settle(db, found["token"], "failed", problem=UNASKED)


def prune(db: sqlite3.Connection) -> None:
    """Forget the questions of forgotten calls."""
    db.execute("DELETE FROM questions WHERE call NOT IN (SELECT seq FROM calls)")


def _withdraw(db: sqlite3.Connection, call: int, place: int) -> None:
    """Forget what an earlier run of a call asked at this place or later: this run asks something else."""
    stale = db.execute("SELECT * FROM questions WHERE call = ? AND place >= ?", (call, place)).fetchall()
    for row in stale:
        _unqueue(db, row)
        db.execute("DELETE FROM questions WHERE token = ?", (row["token"],))


def _unqueue(db: sqlite3.Connection, row: sqlite3.Row) -> None:
    db.execute("DELETE FROM callbacks WHERE call = ? AND id = ?", (row["call"], row["id"]))


def _at(db: sqlite3.Connection, call: int, place: int) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM questions WHERE call = ? AND place = ?", (call, place)
    ).fetchone()
    return row


def _by_token(db: sqlite3.Connection, token: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute("SELECT * FROM questions WHERE token = ?", (token,)).fetchone()
    return row


def _standing(row: sqlite3.Row) -> Standing:
    return Standing(row["token"], row["state"], row["selected"], row["problem"], row["expires_at"])
