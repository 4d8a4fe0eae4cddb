-- One row a thread. The inner number keeps the rows of the other tables small.
CREATE TABLE threads (
    number INTEGER PRIMARY KEY,
    thread TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    counter INTEGER NOT NULL,
    commit_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    user_id TEXT NOT NULL,
    context TEXT NOT NULL,
    tier TEXT NOT NULL,
    purpose TEXT NOT NULL,
    root TEXT NOT NULL,
    parent TEXT NOT NULL,
    lineage BLOB NOT NULL,
    state TEXT NOT NULL,
    owes INTEGER NOT NULL,
    waits INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    not_before REAL NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    title TEXT NOT NULL,
    trace TEXT NOT NULL,
    length INTEGER NOT NULL,
    shape INTEGER NOT NULL,
    head BLOB NOT NULL
);
CREATE INDEX threads_of_owner ON threads (owner, thread);
CREATE INDEX threads_of_agent ON threads (agent, thread);
CREATE INDEX threads_not_open ON threads (state, thread) WHERE state <> 'open';
CREATE INDEX threads_owing ON threads (not_before) WHERE owes;

-- History. A rowid table: keyed by (thread, position) its pages would stay half empty.
CREATE TABLE messages (
    number INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    position INTEGER NOT NULL,
    shape INTEGER NOT NULL DEFAULT 1,
    encoding INTEGER NOT NULL DEFAULT 0,
    body BLOB NOT NULL,
    UNIQUE (thread, position)
);

-- Signals that wait to be absorbed.
CREATE TABLE inbox (
    number INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    due REAL NOT NULL,
    arrived REAL NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (thread, id)
);
CREATE INDEX inbox_due ON inbox (thread, due, arrived);
CREATE INDEX inbox_by_due ON inbox (due);

-- What became of signals, until it is pruned. Apart, since rows that shrink leave their pages half empty.
CREATE TABLE absorbed (
    thread INTEGER NOT NULL,
    id TEXT NOT NULL,
    at REAL NOT NULL,
    outcome TEXT NOT NULL,
    PRIMARY KEY (thread, id)
) WITHOUT ROWID;

CREATE TABLE outbox (
    number INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    not_before REAL NOT NULL,
    claimed_until REAL NOT NULL,
    holder TEXT NOT NULL,
    created REAL NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (thread, id)
);

CREATE TABLE records (
    number INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX records_of_thread ON records (thread);

CREATE TABLE blobs (
    number INTEGER PRIMARY KEY,
    thread TEXT NOT NULL,
    hash TEXT NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (thread, hash)
);

CREATE TABLE small (
    number INTEGER PRIMARY KEY,
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (space, key)
);

-- The doorbell. ready = 0: not before ready_at, which for a leased thread is the end of its lease.
CREATE TABLE rings (
    thread TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    owner TEXT NOT NULL,
    tier INTEGER NOT NULL,
    ring_at REAL NOT NULL,
    start_by REAL NOT NULL,
    not_before REAL NOT NULL,
    ready INTEGER NOT NULL,
    ready_at REAL NOT NULL,
    token TEXT NOT NULL DEFAULT '',
    attempt INTEGER NOT NULL DEFAULT 0,
    rung INTEGER NOT NULL DEFAULT 1,
    cut INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX rings_ready ON rings (tier, start_by) WHERE ready;
CREATE INDEX rings_later ON rings (ready_at) WHERE NOT ready;
