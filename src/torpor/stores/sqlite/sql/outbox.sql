-- name: add
INSERT INTO outbox (thread, id, attempt, not_before, claimed_until, holder, created, body)
VALUES (?, ?, ?, 0, ?, ?, ?, ?)
ON CONFLICT (thread, id) DO NOTHING

-- name: of_thread
SELECT number, body, attempt, not_before, claimed_until FROM outbox WHERE thread = ? AND claimed_until <= ?

-- name: all
SELECT body, attempt, not_before, claimed_until FROM outbox WHERE thread = ? ORDER BY number

-- name: one
SELECT body, attempt, not_before, claimed_until, holder FROM outbox WHERE thread = ? AND id = ?

-- name: claim
UPDATE outbox SET attempt = ?, not_before = ?, claimed_until = ?, holder = ? WHERE thread = ? AND id = ?

-- name: delivered
DELETE FROM outbox WHERE thread = ? AND id = ?

-- name: release
UPDATE outbox SET
    claimed_until = 0,
    not_before = CASE WHEN not_before < 0 THEN 0 ELSE :not_before END,
    attempt = attempt - (NOT :begun AND holder = :holder AND claimed_until > 0)
WHERE thread = :thread AND id = :id AND (claimed_until <= :now OR holder = :holder)

-- name: hasten
UPDATE outbox SET not_before = -1 WHERE thread = ? AND id = ?
