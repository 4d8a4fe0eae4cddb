-- name: now
coalesce(%(now)s::float8, extract(epoch FROM statement_timestamp())::float8)

-- name: closed
SELECT DISTINCT coalesce(nullif(root, ''), thread) AS top FROM torpor.threads
WHERE state IN ('closed', 'moved') AND state <> 'open' AND updated < %(before)s
    AND coalesce(nullif(root, ''), thread) > %(after)s
ORDER BY top LIMIT %(limit)s

-- name: heirs
SELECT thread, source FROM torpor.threads
WHERE source = ANY (%(threads)s::text[]) AND source <> ''
    AND state <> 'deleted' AND thread <> ALL (%(threads)s::text[])

-- name: lock
-- Nothing can be born of what is locked so.
SELECT thread FROM torpor.threads
WHERE thread = ANY (%(threads)s::text[]) AND state <> 'deleted'
ORDER BY number FOR UPDATE

-- name: staying
SELECT heir.thread, heir.parent FROM torpor.threads AS gone JOIN torpor.threads AS heir ON heir.parent = gone.thread
WHERE gone.thread = ANY (%(threads)s::text[]) AND gone.state <> 'deleted' AND heir.parent <> ''
    AND heir.state <> 'deleted' AND heir.thread <> ALL (%(threads)s::text[])
UNION ALL
SELECT heir.thread, heir.source FROM torpor.threads AS gone JOIN torpor.threads AS heir ON heir.source = gone.thread
WHERE gone.thread = ANY (%(threads)s::text[]) AND gone.state <> 'deleted' AND heir.source <> ''
    AND heir.state <> 'deleted' AND heir.thread <> ALL (%(threads)s::text[])
LIMIT 1

-- name: not_over
SELECT thread FROM torpor.threads
WHERE %(before)s > 0 AND thread = ANY (%(threads)s::text[]) AND state <> 'deleted' AND (
    state NOT IN ('closed', 'moved') OR updated >= %(before)s
    OR EXISTS (SELECT FROM torpor.outbox WHERE outbox.thread = threads.number)
    OR state = 'closed' AND EXISTS (
        SELECT FROM torpor.signals
        WHERE signals.thread = threads.number AND outcome IS NULL AND kind IN ('born', 'reported')
    )
)
LIMIT 1

-- name: elsewhere
SELECT at.thread FROM torpor.threads AS at
JOIN unnest(%(known)s::text[], %(counters)s::bigint[], %(commit_ids)s::text[])
    AS wanted (thread, counter, commit_id) USING (thread)
WHERE at.state <> 'deleted' AND (at.counter <> wanted.counter OR at.commit_id <> wanted.commit_id)
UNION ALL
SELECT at.thread FROM torpor.threads AS at
WHERE at.thread = ANY (%(threads)s::text[]) AND at.state IN ('moving', 'arriving', 'moved')
    AND at.thread <> ALL (%(known)s::text[])
LIMIT 1

-- name: delete
WITH gone AS (
    UPDATE torpor.threads SET
        state = 'deleted', counter = counter + 1, commit_id = %(commit_id)s, owes = false
    WHERE thread = ANY (%(threads)s::text[]) AND state <> 'deleted'
        AND NOT EXISTS ($staying) AND NOT EXISTS ($not_over) AND NOT EXISTS ($elsewhere)
    RETURNING 1
)
SELECT count(*) FROM gone

-- name: deleted
SELECT thread FROM torpor.threads WHERE state = 'deleted' AND state <> 'open' ORDER BY thread LIMIT %(limit)s

-- name: orphans
WITH alone (thread) AS (
    SELECT thread FROM torpor.blobs
    WHERE at < %(before)s AND NOT EXISTS (SELECT FROM torpor.threads WHERE threads.thread = blobs.thread)
),
small_of (thread, at) AS (
    SELECT split_part(key, '/', 1), at FROM torpor.small WHERE space = ANY (%(spaces)s::text[])
    UNION ALL
    SELECT substr(space, 7), at FROM torpor.small WHERE space > 'views/' AND space < 'views0'
)
SELECT thread FROM alone
UNION
SELECT thread FROM small_of
WHERE at < %(before)s AND NOT EXISTS (SELECT FROM torpor.threads WHERE threads.thread = small_of.thread)
UNION
SELECT thread FROM torpor.rings
WHERE ready_at < %(before)s AND NOT EXISTS (SELECT FROM torpor.threads WHERE threads.thread = rings.thread)
ORDER BY thread LIMIT %(limit)s

-- name: place
SELECT number, state, parent FROM torpor.threads WHERE thread = %(thread)s

-- name: messages
WITH gone AS (
    DELETE FROM torpor.messages WHERE ctid IN (
        SELECT ctid FROM torpor.messages WHERE thread = %(number)s LIMIT %(limit)s
    ) RETURNING 1
)
SELECT count(*) FROM gone

-- name: inbox
WITH gone AS (
    DELETE FROM torpor.signals WHERE ctid IN (
        SELECT ctid FROM torpor.signals WHERE thread = %(number)s AND outcome IS NULL LIMIT %(limit)s
    ) RETURNING 1
)
SELECT count(*) FROM gone

-- name: absorbed
WITH gone AS (
    DELETE FROM torpor.signals WHERE ctid IN (
        SELECT ctid FROM torpor.signals WHERE thread = %(number)s AND outcome IS NOT NULL LIMIT %(limit)s
    ) RETURNING 1
)
SELECT count(*) FROM gone

-- name: outbox
WITH gone AS (
    DELETE FROM torpor.outbox WHERE ctid IN (
        SELECT ctid FROM torpor.outbox WHERE thread = %(number)s LIMIT %(limit)s
    ) RETURNING 1
)
SELECT count(*) FROM gone

-- name: records
WITH gone AS (
    DELETE FROM torpor.records WHERE ctid IN (
        SELECT ctid FROM torpor.records WHERE thread = %(number)s LIMIT %(limit)s
    ) RETURNING 1
)
SELECT count(*) FROM gone

-- name: blobs
WITH gone AS (
    DELETE FROM torpor.blobs WHERE ctid IN (
        SELECT ctid FROM torpor.blobs WHERE thread = %(thread)s LIMIT %(limit)s
    ) RETURNING 1
)
SELECT count(*) FROM gone

-- name: small_of_thread
space = 'views/' || %(thread)s
    OR (
        space = ANY (%(spaces)s::text[])
        AND (key = %(thread)s OR (key > %(thread)s || '/' AND key < %(thread)s || '0'))
    )

-- name: small
WITH gone AS (
    DELETE FROM torpor.small WHERE ctid IN (
        SELECT ctid FROM torpor.small WHERE $small_of_thread LIMIT %(limit)s
    ) RETURNING 1
)
SELECT count(*) FROM gone

-- name: naming
WITH gone AS (
    DELETE FROM torpor.small
    WHERE space = ANY (%(naming)s::text[]) AND position(%(named)s::bytea IN value) > 0 RETURNING 1
)
SELECT count(*) FROM gone

-- name: rings
WITH gone AS (DELETE FROM torpor.rings WHERE thread = %(thread)s RETURNING 1)
SELECT count(*) FROM gone

-- name: threads
WITH gone AS (
    DELETE FROM torpor.threads WHERE number = %(number)s AND state = 'deleted' RETURNING 1
)
SELECT count(*) FROM gone

-- name: footprint
WITH asked AS (SELECT (SELECT number FROM torpor.threads WHERE thread = %(thread)s) AS number)
SELECT 'messages', count(*) FROM torpor.messages, asked WHERE thread = asked.number
UNION ALL
SELECT CASE WHEN outcome IS NULL THEN 'inbox' ELSE 'absorbed' END, count(*)
    FROM torpor.signals, asked WHERE thread = asked.number GROUP BY 1
UNION ALL SELECT 'outbox', count(*) FROM torpor.outbox, asked WHERE thread = asked.number
UNION ALL SELECT 'records', count(*) FROM torpor.records, asked WHERE thread = asked.number
UNION ALL SELECT 'blobs', count(*) FROM torpor.blobs WHERE thread = %(thread)s
UNION ALL SELECT 'small', count(*) FROM torpor.small WHERE $small_of_thread
UNION ALL SELECT 'small', count(*) FROM torpor.small
    WHERE space = ANY (%(naming)s::text[]) AND position(%(named)s::bytea IN value) > 0
UNION ALL SELECT 'rings', count(*) FROM torpor.rings WHERE thread = %(thread)s
UNION ALL SELECT 'threads', count(*) FROM torpor.threads WHERE thread = %(thread)s
UNION ALL SELECT 'named', count(*) FROM torpor.threads
    WHERE (parent = %(thread)s AND parent <> '')
        OR (root = %(thread)s AND parent <> '' AND thread <> %(thread)s)
        OR (source = %(thread)s AND source <> '')

-- name: oldest_effect
-- All of the outbox is looked at, once before much is pruned: nothing that comes later is older.
SELECT coalesce(min(created), 'infinity') FROM torpor.outbox

-- name: prune
WITH gone AS (
    DELETE FROM torpor.signals WHERE ctid IN (
        SELECT ctid FROM torpor.signals
        WHERE outcome IS NOT NULL AND settled < %(before)s
        LIMIT %(limit)s
    ) RETURNING 1
)
SELECT count(*) FROM gone

-- name: forget_records
WITH gone AS (
    DELETE FROM torpor.records WHERE ctid IN (
        SELECT ctid FROM torpor.records AS old
        WHERE ended < %(before)s AND EXISTS (
            SELECT FROM torpor.records AS later
            WHERE later.thread = old.thread AND later.number > old.number
        )
        LIMIT %(limit)s
    ) RETURNING 1
)
SELECT count(*) FROM gone

-- name: forget
WITH gone AS (
    DELETE FROM torpor.small WHERE ctid IN (
        SELECT ctid FROM torpor.small WHERE space = %(space)s AND at < %(before)s LIMIT %(limit)s
    ) RETURNING 1
)
SELECT count(*) FROM gone

-- name: scrub
VACUUM (FULL) torpor.messages, torpor.signals, torpor.outbox, torpor.records, torpor.blobs, torpor.small,
    torpor.threads, torpor.rings
