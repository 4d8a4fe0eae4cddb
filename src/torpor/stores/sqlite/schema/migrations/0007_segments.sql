-- Of threads at rest: messages (kind 0) or records (kind 1) that stand one after the other, packed into one row.
-- first: of messages the position of the first; of records a number that grows.
-- Those of messages come before all rows in messages, those of records before all in records.
-- since: when the oldest of the records that may be forgotten ended.
CREATE TABLE segments (
    number INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    since REAL NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (thread, kind, first)
);
CREATE INDEX segments_by_age ON segments (since) WHERE kind = 1;
