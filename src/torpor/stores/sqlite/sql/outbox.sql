-- name: add
INSERT INTO outbox (thread, id, attempt, not_before, claimed_until, holder, created, body)
VALUES (?, ?, ?, 0, ?, ?, ?, ?)
ON CONFLICT (thread, id) DO NOTHING

-- name: of_thread
SELECT body, attempt, not_before, claimed_until FROM outbox
WHERE thread = ? AND claimed_until <= ? ORDER BY number

-- name: claim
UPDATE outbox SET
    attempt = attempt + (claimed_until <= :now), claimed_until = :until, holder = :holder
WHERE thread = :thread AND id = :id
    AND (claimed_until <= :now AND not_before <= :now OR claimed_until > :now AND holder = :holder)
RETURNING body, attempt, not_before, claimed_until

-- name: delivered
DELETE FROM outbox WHERE thread = ? AND id = ?

-- name: release
UPDATE outbox SET claimed_until = 0, not_before = :not_before
WHERE thread = :thread AND id = :id AND (claimed_until <= :now OR holder = :holder)
