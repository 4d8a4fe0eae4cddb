-- A summary stands for history up to this position: slices read only what came after it.
ALTER TABLE threads ADD COLUMN base INTEGER NOT NULL DEFAULT 0;
