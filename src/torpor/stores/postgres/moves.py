"""A thread as a whole: read out for another store, and taken in from one."""

from torpor.core.codec import decode_record, decode_signal, encode
from torpor.core.errors import Refused
from torpor.core.views import views_space
from torpor.ports import Exported, StoredMessage
from torpor.stores.columns import row_of
from torpor.stores.postgres.database import Database
from torpor.stores.postgres.rows import Given, columns_of, outbox_row, signals_of
from torpor.stores.statements import statements

_SQL = statements(__package__, "sql/moves.sql")
_THREADS = statements(__package__, "sql/threads.sql")

_READ = [
    _THREADS["one"],
    *[_SQL[name] for name in ("messages", "inbox", "absorbed", "outbox", "records", "blobs", "views")],
]


async def export(database: Database, thread: str) -> Exported:
    """All that is kept of a thread, as of one instant."""
    given = {"thread": thread, "space": views_space(thread)}
    rows, messages, inbox, absorbed, outbox, records, blobs, views = await database.together(
        [(statement, given) for statement in _READ]
    )
    if not rows:
        raise Refused(f"There is no thread {thread!r} in this store.")
    return Exported(
        row=row_of(rows[0]),
        messages=tuple([StoredMessage(position, body) for position, body in messages]),
        inbox=tuple([(decode_signal(body), arrived) for body, arrived in inbox]),
        absorbed=tuple([(id, at, outcome) for id, at, outcome in absorbed]),
        outbox=tuple([(outbox_row(values), at) for *values, at in outbox]),
        records=tuple([decode_record(body) for (body,) in records]),
        blobs=dict(blobs),
        views=dict(views),
    )


async def take_in(database: Database, exported: Exported) -> bool:
    """Add a thread with all that was kept of it, unless it exists and is more than an older copy."""
    given = _given(exported) | {"now": database.given_now}
    _, added = await database.together([(_SQL["drop_copy"], given), (_SQL["take_in"], given)])
    return bool(added)


def _given(exported: Exported) -> Given:
    absorbed, outbox = exported.absorbed, exported.outbox
    return {
        **columns_of(exported.row),
        **signals_of([signal for signal, _ in exported.inbox]),
        "arrived": [arrived for _, arrived in exported.inbox],
        "positions": [message.position for message in exported.messages],
        "messages": [message.body for message in exported.messages],
        "absorbed": [id for id, _, _ in absorbed],
        "settled": [at for _, at, _ in absorbed],
        "outcomes": [outcome for _, _, outcome in absorbed],
        "effects": [row.effect.id for row, _ in outbox],
        "attempts": [row.attempt for row, _ in outbox],
        "not_befores": [float(row.not_before) for row, _ in outbox],
        "createds": [float(created) for _, created in outbox],
        "decided": [encode(row.effect) for row, _ in outbox],
        "ends": [float(record.committed_at) for record in exported.records],
        "records": [encode(record) for record in exported.records],
        "hashes": list(exported.blobs),
        "blobs": list(exported.blobs.values()),
        "keys": list(exported.views),
        "values": list(exported.views.values()),
        "space": views_space(exported.row.thread),
    }
