-- Which thread a fork continues, so that this one stays; who works on a thread by steps.
ALTER TABLE threads ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE threads ADD COLUMN held_by TEXT NOT NULL DEFAULT '';
ALTER TABLE threads ADD COLUMN held_until REAL NOT NULL DEFAULT 0;
CREATE INDEX threads_of_source ON threads (source) WHERE source <> '';

-- When a blob was kept, so that those that turn out to be nobody's can be told from those of a thread to come.
ALTER TABLE blobs ADD COLUMN at REAL NOT NULL DEFAULT 0;
