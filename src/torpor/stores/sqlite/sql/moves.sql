-- name: inbox
SELECT body, arrived FROM inbox WHERE thread = ? ORDER BY number

-- name: absorbed
SELECT id, at, outcome FROM absorbed WHERE thread = ? ORDER BY id

-- name: outbox
SELECT body, attempt, not_before, 0.0, created FROM outbox WHERE thread = ? ORDER BY number

-- name: blobs
SELECT hash, body FROM blobs WHERE thread = ? ORDER BY hash

-- name: copy
SELECT number FROM threads WHERE thread = ? AND state IN ('arriving', 'moved') AND counter <= ?

-- name: drop_messages
DELETE FROM messages WHERE thread = ?

-- name: drop_inbox
DELETE FROM inbox WHERE thread = ?

-- name: drop_absorbed
DELETE FROM absorbed WHERE thread = ?

-- name: drop_outbox
DELETE FROM outbox WHERE thread = ?

-- name: drop_records
DELETE FROM records WHERE thread = ?

-- name: drop_segments
DELETE FROM segments WHERE thread = ?

-- name: drop_blobs
DELETE FROM blobs WHERE thread = ?

-- name: drop_views
DELETE FROM small WHERE space = ?

-- name: add_effect
INSERT INTO outbox (thread, id, attempt, not_before, claimed_until, holder, created, body)
VALUES (?, ?, ?, ?, 0, '', ?, ?)
