-- name: add_blob
INSERT INTO blobs (thread, hash, body, at) VALUES (?, ?, ?, ?) ON CONFLICT (thread, hash) DO NOTHING

-- name: blob
SELECT number FROM blobs WHERE thread = ? AND hash = ?

-- name: put
INSERT INTO small (space, key, value, at) VALUES (?, ?, ?, ?)
ON CONFLICT (space, key) DO UPDATE SET value = excluded.value, at = excluded.at

-- name: put_new
INSERT INTO small (space, key, value, at) VALUES (?, ?, ?, ?) ON CONFLICT (space, key) DO NOTHING

-- name: get
SELECT value FROM small WHERE space = ? AND key = ?

-- name: entries
SELECT key, value FROM small WHERE space = ? ORDER BY key
