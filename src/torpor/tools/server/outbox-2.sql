CREATE TABLE owed (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    call         INTEGER,                       -- NULL: of no call that is kept
    kind         TEXT NOT NULL,
    lane         TEXT,                          -- one after the other within a lane; NULL: on its own
    id           TEXT NOT NULL,                 -- the event_id that stands in the body
    url          TEXT NOT NULL,
    private      INTEGER NOT NULL,
    body         BLOB NOT NULL,
    attempt      INTEGER NOT NULL DEFAULT 0,
    not_before   REAL NOT NULL,
    give_up_at   REAL NOT NULL
);
INSERT INTO owed SELECT seq, call, kind, 'call ' || call, 'callback-' || seq, url, private, body, attempt,
    not_before, give_up_at FROM callbacks;
DROP TABLE callbacks;
ALTER TABLE owed RENAME TO callbacks;
CREATE INDEX callbacks_by_call ON callbacks (call, seq);
CREATE INDEX callbacks_by_lane ON callbacks (lane, seq);
CREATE INDEX callbacks_due ON callbacks (not_before);

CREATE TABLE questions (
    token        TEXT PRIMARY KEY,              -- a secret: who has it may answer
    call         INTEGER NOT NULL,
    place        INTEGER NOT NULL,              -- which of the questions of its call, from 0
    id           TEXT NOT NULL,                 -- the event_id of the callback that asks it
    digest       TEXT NOT NULL,                 -- of what is asked
    choices      INTEGER NOT NULL,              -- how many there are; 0: this asks for authorization
    state        TEXT NOT NULL CHECK (state IN ('open', 'answered', 'expired', 'failed')),
    selected     INTEGER NOT NULL DEFAULT 0,
    problem      TEXT NOT NULL DEFAULT '',
    expires_at   REAL NOT NULL,
    UNIQUE (call, place)
);

CREATE TABLE views (
    thread       TEXT NOT NULL,
    type         TEXT NOT NULL,
    seq          INTEGER NOT NULL,              -- of the last update
    at           REAL NOT NULL,
    PRIMARY KEY (thread, type)
);
