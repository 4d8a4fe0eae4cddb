-- name: columns
thread, agent, counter, commit_id, owner, user_id, context, tier, purpose, root, parent, lineage, state,
owes, waits, attempt, not_before, created, updated, title, trace, length, shape, head, base, source, number

-- name: add
INSERT INTO threads (
    thread, agent, counter, commit_id, owner, user_id, context, tier, purpose, root, parent, lineage, state,
    owes, waits, attempt, not_before, created, updated, title, trace, length, shape, head, base, source
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (thread) DO NOTHING

-- name: one
SELECT $columns
FROM threads WHERE thread = ? AND state <> 'deleted'

-- name: glance
SELECT threads.counter, threads.commit_id, threads.attempt, threads.not_before, threads.state,
    EXISTS (SELECT 1 FROM outbox WHERE outbox.thread = threads.number AND outbox.claimed_until <= :now),
    inbox.number, inbox.due, inbox.body
FROM threads LEFT JOIN inbox INDEXED BY inbox_due ON inbox.thread = threads.number
WHERE threads.number = :number AND threads.thread = :thread
LIMIT :limit

-- name: address
SELECT number, agent, owner, tier FROM threads WHERE thread = ? AND state <> 'deleted'

-- name: number
SELECT number FROM threads WHERE thread = ? AND state <> 'deleted'

-- name: hold
UPDATE threads SET held_by = :holder, held_until = :until
WHERE thread = :thread AND state <> 'deleted' AND (held_by = :holder OR held_until <= :now)

-- name: held
SELECT held_until FROM threads WHERE thread = ? AND state <> 'deleted'

-- name: has_effect
SELECT 1 FROM outbox
WHERE id = ? AND thread = (SELECT number FROM threads WHERE thread = ? AND state <> 'deleted')

-- name: guarded
SELECT number, counter, commit_id, agent, owner, user_id, purpose, root, parent, lineage, created, source
FROM threads WHERE thread = ? AND state <> 'deleted'

-- name: advance
UPDATE threads SET
    counter = ?, commit_id = ?, context = ?, tier = ?, state = ?, owes = ?, waits = ?, attempt = ?,
    not_before = ?, updated = ?, title = ?, trace = ?, length = ?, shape = ?, head = ?, base = ?
WHERE number = ?

-- name: advance_known
UPDATE threads SET
    counter = ?, commit_id = ?, context = ?, tier = ?, state = ?, owes = ?, waits = ?, attempt = ?,
    not_before = ?, updated = ?, title = ?, trace = ?, length = ?, shape = ?, head = ?, base = ?
WHERE number = ? AND counter = ? AND commit_id = ? AND thread = ?

-- name: rewrite
UPDATE threads SET
    agent = ?, owner = ?, user_id = ?, purpose = ?, root = ?, parent = ?, lineage = ?, created = ?, source = ?
WHERE number = ?

-- name: postpone
UPDATE threads SET attempt = ?, not_before = ?, state = coalesce(nullif(?, ''), state)
WHERE thread = ? AND counter = ? AND commit_id = ?

-- name: asked
thread > :after AND state <> 'deleted'
    AND (:owner IS NULL OR owner = :owner) AND (:agent IS NULL OR agent = :agent)
    AND (:state IS NULL OR state = :state)
    AND (:root IS NULL OR root = :root) AND (:parent IS NULL OR parent = :parent)
    AND (purpose = :purpose OR :purpose IS NULL AND purpose <> 'compaction')

-- name: list_all
SELECT $columns
FROM threads
WHERE $asked
ORDER BY thread LIMIT :limit

-- name: list_of_parent
SELECT $columns
FROM threads INDEXED BY threads_of_parent
WHERE parent = :parent AND parent <> '' AND $asked
ORDER BY thread LIMIT :limit

-- name: list_of_root
SELECT $columns
FROM threads
WHERE number IN (
        SELECT number FROM threads WHERE thread = :root
        UNION ALL
        SELECT number FROM threads INDEXED BY threads_of_root WHERE root = :root AND parent <> ''
    )
    AND $asked
ORDER BY thread LIMIT :limit

-- name: list_of_owner
SELECT $columns
FROM threads
WHERE owner = :owner AND $asked
ORDER BY thread LIMIT :limit

-- name: list_of_purpose
SELECT $columns
FROM threads INDEXED BY threads_by_purpose
WHERE purpose = :purpose AND purpose <> 'root' AND $asked
ORDER BY thread LIMIT :limit

-- name: list_of_agent
SELECT $columns
FROM threads
WHERE agent = :agent AND $asked
ORDER BY thread LIMIT :limit

-- name: list_not_open
SELECT $columns
FROM threads
WHERE state = :state AND state <> 'open' AND $asked
ORDER BY thread LIMIT :limit

-- name: stranded
WITH found (number, since) AS (
    SELECT inbox.thread, max(inbox.due, inbox.arrived)
    FROM inbox INDEXED BY inbox_by_due JOIN threads ON threads.number = inbox.thread
    WHERE inbox.due <= :now AND (threads.state <> 'closed' OR inbox.kind IN ('born', 'reported'))
        AND (threads.not_before <= :now OR inbox.kind IN ('stopped', 'closed', 'nudged', 'interrupt'))
    UNION ALL
    SELECT outbox.thread, max(outbox.not_before, outbox.claimed_until, outbox.created)
    FROM outbox
    WHERE outbox.not_before <= :now + :ahead AND outbox.claimed_until <= :now + :ahead
    UNION ALL
    SELECT threads.number, max(threads.not_before, threads.updated)
    FROM threads INDEXED BY threads_owing
    WHERE threads.owes AND threads.not_before <= :now
),
first (number, since) AS (SELECT number, min(since) FROM found GROUP BY number)
SELECT $columns, first.since
FROM first JOIN threads USING (number)
WHERE threads.state NOT IN ('moving', 'arriving', 'moved', 'deleted')
    AND (:agents IS NULL OR threads.agent IN (SELECT value FROM json_each(:agents)))
ORDER BY first.since, number LIMIT :limit OFFSET :skip

-- name: add_record
INSERT INTO records (thread, body) VALUES (?, ?)

-- name: records
SELECT body FROM records WHERE thread = ? ORDER BY number LIMIT ? OFFSET ?

-- name: last_record
SELECT body FROM records WHERE thread = ? ORDER BY number DESC LIMIT 1
