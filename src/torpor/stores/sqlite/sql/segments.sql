-- name: after
SELECT first, body FROM segments WHERE thread = ? AND kind = 0 AND first + count > ? + 1 ORDER BY first

-- name: records
SELECT body FROM segments WHERE thread = ? AND kind = 1 ORDER BY first

-- name: resting
WITH RECURSIVE written (thread) AS (
    SELECT min(thread) FROM messages
    UNION ALL
    SELECT (SELECT min(thread) FROM messages WHERE thread > written.thread)
    FROM written WHERE written.thread IS NOT NULL
)
SELECT number, counter FROM written JOIN threads ON number = written.thread
WHERE updated < ? AND NOT owes AND state <> 'deleted'
LIMIT ?

-- name: messages
SELECT position, body FROM messages WHERE thread = ? ORDER BY position

-- name: slices
SELECT number, body FROM records WHERE thread = ? ORDER BY number

-- name: last
SELECT number, first, count, CASE WHEN count < ?3 THEN body END FROM segments
WHERE thread = ?1 AND kind = ?2 ORDER BY first DESC LIMIT 1

-- name: unchanged
SELECT 1 FROM threads WHERE number = ?1 AND counter = ?2 AND state <> 'deleted'
AND (SELECT count(*) FROM messages WHERE thread = ?1) = ?3
AND (SELECT count(*) FROM records WHERE thread = ?1) = ?4

-- name: drop_messages
DELETE FROM messages WHERE thread = ?

-- name: drop_records
DELETE FROM records WHERE thread = ?

-- name: replace
DELETE FROM segments WHERE number = ? AND thread = ? AND kind = ?

-- name: drop
DELETE FROM segments WHERE number = ?

-- name: add
INSERT INTO segments (thread, kind, first, count, since, body) VALUES (?, ?, ?, ?, ?, ?)

-- name: old
SELECT number, thread, first, body FROM segments WHERE kind = 1 AND since < ? LIMIT ?

-- name: has_later
SELECT EXISTS (SELECT 1 FROM records WHERE thread = ?1)
OR EXISTS (SELECT 1 FROM segments WHERE thread = ?1 AND kind = 1 AND first > ?2)

-- name: rewrite
UPDATE segments SET count = ?, since = ?, body = ? WHERE number = ?
