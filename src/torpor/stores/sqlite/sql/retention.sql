-- name: closed
SELECT DISTINCT coalesce(nullif(root, ''), thread) AS top
FROM threads INDEXED BY threads_not_open
WHERE state IN ('closed', 'moved') AND state <> 'open' AND updated < :before AND top > :after
ORDER BY top LIMIT :limit

-- name: heirs
SELECT thread, source
FROM threads INDEXED BY threads_of_source
WHERE source IN (SELECT value FROM json_each(:threads)) AND source <> ''
    AND state <> 'deleted' AND thread NOT IN (SELECT value FROM json_each(:threads))

-- name: going
going (thread) AS MATERIALIZED (
    SELECT thread FROM threads
    WHERE thread IN (SELECT value FROM json_each(:threads)) AND state <> 'deleted'
)

-- name: staying
WITH $going
SELECT thread, parent
FROM threads INDEXED BY threads_of_parent
WHERE parent IN (SELECT thread FROM going) AND parent <> ''
    AND state <> 'deleted' AND thread NOT IN (SELECT thread FROM going)
UNION ALL
SELECT thread, source
FROM threads INDEXED BY threads_of_source
WHERE source IN (SELECT thread FROM going) AND source <> ''
    AND state <> 'deleted' AND thread NOT IN (SELECT thread FROM going)
LIMIT 1

-- name: not_over
WITH $going
SELECT thread
FROM threads JOIN going USING (thread)
WHERE state NOT IN ('closed', 'moved') OR updated >= :before
    OR EXISTS (SELECT 1 FROM outbox WHERE outbox.thread = threads.number)
    OR (
        state = 'closed'
        AND EXISTS (SELECT 1 FROM inbox WHERE inbox.thread = threads.number AND kind IN ('born', 'reported'))
    )
LIMIT 1

-- name: elsewhere
WITH wanted (thread, counter, commit_id) AS (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')
    FROM json_each(:versions)
)
SELECT threads.thread FROM wanted JOIN threads USING (thread)
WHERE state <> 'deleted' AND (threads.counter <> wanted.counter OR threads.commit_id <> wanted.commit_id)
UNION ALL
SELECT thread FROM threads
WHERE thread IN (SELECT value FROM json_each(:threads)) AND state IN ('moving', 'arriving', 'moved')
    AND thread NOT IN (SELECT thread FROM wanted)
LIMIT 1

-- name: delete
UPDATE threads SET state = 'deleted', counter = counter + 1, commit_id = :commit_id, owes = 0
WHERE state <> 'deleted' AND thread IN (SELECT value FROM json_each(:threads))

-- name: deleted
SELECT thread FROM threads INDEXED BY threads_not_open
WHERE state = 'deleted' AND state <> 'open'
ORDER BY thread LIMIT ?

-- name: orphans
WITH alone (thread) AS MATERIALIZED (
    SELECT DISTINCT thread FROM blobs
    WHERE NOT EXISTS (SELECT 1 FROM threads WHERE threads.thread = blobs.thread)
),
small_of (thread, at) AS (
    SELECT substr(key, 1, instr(key || '/', '/') - 1), at FROM small
    WHERE space IN (SELECT value FROM json_each(:spaces))
    UNION ALL
    SELECT substr(space, 7), at FROM small WHERE space > 'views/' AND space < 'views0'
)
SELECT thread FROM alone
WHERE EXISTS (SELECT 1 FROM blobs WHERE blobs.thread = alone.thread AND blobs.at < :before)
UNION
SELECT thread FROM small_of
WHERE at < :before AND NOT EXISTS (SELECT 1 FROM threads WHERE threads.thread = small_of.thread)
UNION
SELECT thread FROM rings
WHERE ready_at < :before AND NOT EXISTS (SELECT 1 FROM threads WHERE threads.thread = rings.thread)
ORDER BY thread LIMIT :limit

-- name: place
SELECT number, state, parent FROM threads WHERE thread = ?

-- name: messages
DELETE FROM messages WHERE number IN (SELECT number FROM messages WHERE thread = :number LIMIT :limit)

-- name: inbox
DELETE FROM inbox WHERE number IN (SELECT number FROM inbox WHERE thread = :number LIMIT :limit)

-- name: absorbed
DELETE FROM absorbed
WHERE thread = :number AND id IN (SELECT id FROM absorbed WHERE thread = :number LIMIT :limit)

-- name: outbox
DELETE FROM outbox WHERE number IN (SELECT number FROM outbox WHERE thread = :number LIMIT :limit)

-- name: segments
DELETE FROM segments WHERE number IN (SELECT number FROM segments WHERE thread = :number LIMIT :limit)

-- name: records
DELETE FROM records WHERE number IN (SELECT number FROM records WHERE thread = :number LIMIT :limit)

-- name: blobs
DELETE FROM blobs
WHERE number IN (SELECT number FROM blobs WHERE thread = :thread LIMIT min(:limit, 20))

-- name: small_of_thread
space = 'views/' || :thread
    OR (
        space IN (SELECT value FROM json_each(:spaces))
        AND (key = :thread OR (key > :thread || '/' AND key < :thread || '0'))
    )

-- name: small
DELETE FROM small WHERE number IN (SELECT number FROM small WHERE $small_of_thread LIMIT :limit)

-- name: naming
DELETE FROM small WHERE space IN (SELECT value FROM json_each(:naming)) AND instr(value, :named)

-- name: rings
DELETE FROM rings WHERE thread = :thread

-- name: threads
DELETE FROM threads WHERE number = :number AND state = 'deleted'

-- name: footprint
SELECT 'messages', count(*) FROM messages WHERE thread = :number
UNION ALL SELECT 'inbox', count(*) FROM inbox WHERE thread = :number
UNION ALL SELECT 'absorbed', count(*) FROM absorbed WHERE thread = :number
UNION ALL SELECT 'outbox', count(*) FROM outbox WHERE thread = :number
UNION ALL SELECT 'records', count(*) FROM records WHERE thread = :number
UNION ALL SELECT 'segments', count(*) FROM segments WHERE thread = :number
UNION ALL SELECT 'blobs', count(*) FROM blobs WHERE thread = :thread
UNION ALL SELECT 'small', count(*) FROM small WHERE $small_of_thread
UNION ALL SELECT 'small', count(*) FROM small
    WHERE space IN (SELECT value FROM json_each(:naming)) AND instr(value, :named)
UNION ALL SELECT 'rings', count(*) FROM rings WHERE thread = :thread
UNION ALL SELECT 'threads', count(*) FROM threads WHERE thread = :thread
UNION ALL SELECT 'named', count(*) FROM (
    SELECT thread FROM threads WHERE parent = :thread AND parent <> ''
    UNION SELECT thread FROM threads WHERE root = :thread AND parent <> '' AND thread <> :thread
    UNION SELECT thread FROM threads WHERE source = :thread AND source <> ''
)

-- name: old_ids
SELECT thread, id, at < :before FROM absorbed WHERE (thread, id) > (:thread, :id)
ORDER BY thread, id LIMIT :limit

-- name: oldest_effect
SELECT min(created) FROM outbox

-- name: forget_id
DELETE FROM absorbed WHERE thread = ? AND id = ?

-- name: some_records
SELECT number, body FROM records WHERE number > ? ORDER BY number LIMIT ?

-- name: forget_record
DELETE FROM records
WHERE number = ?1 AND EXISTS (
    SELECT 1 FROM records AS later WHERE later.thread = records.thread AND later.number > ?1
)

-- name: forget_small
DELETE FROM small WHERE number IN (
    SELECT number FROM small INDEXED BY small_by_age WHERE space = ? AND at < ? LIMIT ?
)
