-- name: add
INSERT INTO inbox (thread, id, kind, due, arrived, body) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (thread, id) DO NOTHING

-- name: due
SELECT body FROM inbox INDEXED BY inbox_open
WHERE thread = ? AND absorbed_at IS NULL AND due <= ?
ORDER BY number LIMIT ?

-- name: next_due
SELECT min(due) FROM inbox INDEXED BY inbox_open WHERE thread = ? AND absorbed_at IS NULL AND due > ?

-- name: open
SELECT body FROM inbox INDEXED BY inbox_open WHERE thread = ? AND absorbed_at IS NULL ORDER BY number

-- name: absorb
UPDATE inbox SET absorbed_at = ?, outcome = ?, body = NULL
WHERE thread = ? AND id = ? AND absorbed_at IS NULL

-- name: cancel
DELETE FROM inbox WHERE thread = ? AND id = ? AND absorbed_at IS NULL

-- name: seen
SELECT 1 FROM inbox JOIN threads ON threads.number = inbox.thread WHERE threads.thread = ? AND inbox.id = ?

-- name: outcome
SELECT coalesce(inbox.outcome, '')
FROM inbox JOIN threads ON threads.number = inbox.thread WHERE threads.thread = ? AND inbox.id = ?

-- name: prune
DELETE FROM inbox
WHERE absorbed_at < min(:before, (SELECT coalesce(min(created), :before) FROM outbox))
