-- name: add
INSERT INTO messages (thread, position, body) VALUES (?, ?, ?)

-- name: since
SELECT position, body FROM messages WHERE thread = ? AND position > ? ORDER BY position

-- name: after
SELECT position, body FROM messages WHERE thread = ? AND position > ? ORDER BY position LIMIT ?
