-- name: add
INSERT INTO inbox (thread, id, kind, due, arrived, body)
SELECT ?1, ?2, ?3, ?4, ?5, ?6
WHERE NOT EXISTS (SELECT 1 FROM absorbed WHERE thread = ?1 AND id = ?2)
ON CONFLICT (thread, id) DO NOTHING

-- name: some
SELECT number, due, body FROM inbox INDEXED BY inbox_due WHERE thread = ? ORDER BY due LIMIT ?

-- name: due
SELECT body FROM inbox INDEXED BY inbox_due WHERE thread = ? AND due <= ? ORDER BY number LIMIT ?

-- name: next_due
SELECT min(due) FROM inbox INDEXED BY inbox_due WHERE thread = ? AND due > ?

-- name: open
SELECT body FROM inbox INDEXED BY inbox_due WHERE thread = ? ORDER BY number

-- name: take
DELETE FROM inbox WHERE thread = ? AND id = ?

-- name: absorb
INSERT INTO absorbed (thread, id, at, outcome) VALUES (?, ?, ?, ?)

-- name: outcome
SELECT outcome FROM absorbed WHERE thread = (SELECT number FROM threads WHERE thread = ?1 AND state <> 'deleted') AND id = ?2
UNION ALL
SELECT '' FROM inbox WHERE thread = (SELECT number FROM threads WHERE thread = ?1 AND state <> 'deleted') AND id = ?2
