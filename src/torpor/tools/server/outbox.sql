CREATE TABLE calls (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    thread       TEXT NOT NULL,
    id           TEXT NOT NULL,
    key          TEXT,
    digest       TEXT NOT NULL,
    invocation   BLOB NOT NULL,
    call_id      TEXT,
    url          TEXT NOT NULL,                 -- a secret: never logged, never sent
    private      INTEGER NOT NULL,              -- may the URL lead to this machine or network
    state        TEXT NOT NULL CHECK (state IN ('accepted', 'running', 'subscribed', 'ended', 'repeat')),
    cancelled    INTEGER NOT NULL DEFAULT 0,
    origin       INTEGER,                       -- of a repeat under another id: the call it repeats
    result       BLOB,                          -- the settling result, without the ids it is addressed with
    events       INTEGER NOT NULL DEFAULT 0,    -- how many events were made
    memory       BLOB,
    accepted_at  REAL NOT NULL,
    ended_at     REAL,
    UNIQUE (thread, id)
);
CREATE INDEX calls_by_key ON calls (thread, key) WHERE key IS NOT NULL;
CREATE INDEX calls_repeating ON calls (origin) WHERE origin IS NOT NULL;
CREATE INDEX calls_live ON calls (state) WHERE state IN ('accepted', 'running', 'subscribed');

CREATE TABLE callbacks (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    call         INTEGER,                       -- callbacks of one call go out in order; NULL: on its own
    kind         TEXT NOT NULL CHECK (kind IN ('result', 'again', 'confirmation', 'event', 'final')),
    url          TEXT NOT NULL,
    private      INTEGER NOT NULL,
    body         BLOB NOT NULL,
    attempt      INTEGER NOT NULL DEFAULT 0,
    not_before   REAL NOT NULL,
    give_up_at   REAL NOT NULL
);
CREATE INDEX callbacks_by_call ON callbacks (call, seq);
CREATE INDEX callbacks_due ON callbacks (not_before);
