-- When a small value was kept first, so that spaces that only grow can be pruned.
ALTER TABLE small ADD COLUMN at REAL NOT NULL DEFAULT 0;
CREATE INDEX small_by_age ON small (space, at);
