-- name: inbox
SELECT body, arrived FROM inbox WHERE thread = ? ORDER BY number

-- name: absorbed
SELECT id, at, outcome FROM absorbed WHERE thread = ? ORDER BY id

-- name: outbox
SELECT body, attempt, not_before, 0.0, created FROM outbox WHERE thread = ? ORDER BY number

-- name: records
SELECT body FROM records WHERE thread = ? ORDER BY number

-- name: blobs
SELECT hash, body FROM blobs WHERE thread = ? ORDER BY hash

-- name: add_effect
INSERT INTO outbox (thread, id, attempt, not_before, claimed_until, holder, created, body)
VALUES (?, ?, ?, ?, 0, '', ?, ?)
