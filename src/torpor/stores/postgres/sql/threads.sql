-- name: now
coalesce(%(now)s::float8, extract(epoch FROM statement_timestamp())::float8)

-- name: columns
threads.thread, threads.agent, threads.counter, threads.commit_id, threads.owner, threads.user_id,
threads.context, threads.tier, threads.purpose, threads.root, threads.parent, threads.lineage, threads.state,
threads.owes, threads.waits, threads.attempt, threads.not_before, threads.created, threads.updated, threads.title,
threads.trace, threads.length, threads.shape, threads.head, threads.base, threads.source

-- name: new
INSERT INTO torpor.threads (
    thread, agent, counter, commit_id, owner, user_id, context, tier, purpose, root, parent, lineage, state,
    owes, waits, attempt, not_before, created, updated, title, trace, length, shape, head, base, source
)
SELECT
    %(thread)s, %(agent)s, %(counter)s, %(commit_id)s, %(owner)s, %(user_id)s, %(context)s, %(tier)s,
    %(purpose)s, %(root)s, %(parent)s, %(lineage)s, %(state)s, %(owes)s, %(waits)s, %(attempt)s, %(not_before)s,
    %(created)s, %(updated)s, %(title)s, %(trace)s, %(length)s, %(shape)s, %(head)s, %(base)s, %(source)s
WHERE (%(source)s = '' OR EXISTS (SELECT FROM origin)) AND (%(effect)s = '' OR EXISTS (SELECT FROM owing))
ON CONFLICT (thread) DO NOTHING
RETURNING number

-- name: create
-- What the thread comes of is locked, so that it cannot be deleted meanwhile.
WITH origin AS (
    SELECT number FROM torpor.threads WHERE thread = %(source)s AND state <> 'deleted' FOR KEY SHARE
),
owing AS (
    SELECT outbox.number FROM torpor.threads JOIN torpor.outbox ON outbox.thread = threads.number
    WHERE threads.thread = %(parent)s AND state <> 'deleted' AND outbox.id = %(effect)s
    FOR KEY SHARE
),
added AS ($new),
told AS (
    INSERT INTO torpor.signals (thread, id, kind, due, arrived, body)
    SELECT added.number, given.id, given.kind, given.due, $now, given.body
    FROM added, unnest(%(ids)s::text[], %(kinds)s::text[], %(dues)s::float8[], %(bodies)s::bytea[])
        WITH ORDINALITY AS given (id, kind, due, body, place)
    ORDER BY given.place
    ON CONFLICT (thread, id) DO NOTHING
)
SELECT number FROM added

-- name: one
SELECT $columns FROM torpor.threads WHERE thread = %(thread)s AND state <> 'deleted'

-- name: at
SELECT counter, commit_id FROM torpor.threads WHERE thread = %(thread)s AND state <> 'deleted'

-- name: load
SELECT $columns,
    asked.now,
    CASE WHEN threads.counter = %(known)s AND threads.commit_id = %(known_id)s THEN NULL ELSE ARRAY(
        SELECT body FROM torpor.messages
        WHERE messages.thread = threads.number AND position > threads.base ORDER BY position
    ) END,
    ARRAY(
        SELECT body FROM torpor.signals
        WHERE signals.thread = threads.number AND outcome IS NULL AND due <= asked.now
        ORDER BY number LIMIT %(limit)s
    ),
    coalesce((
        SELECT min(due) FROM torpor.signals
        WHERE signals.thread = threads.number AND outcome IS NULL AND due > asked.now
    ), 0),
    ARRAY(
        SELECT ROW(body, attempt, outbox.not_before, claimed_until) FROM torpor.outbox
        WHERE outbox.thread = threads.number AND claimed_until <= asked.now ORDER BY number
    )
FROM (SELECT $now AS now) AS asked, torpor.threads
WHERE threads.thread = %(thread)s AND threads.state <> 'deleted'

-- name: postpone
UPDATE torpor.threads SET
    attempt = %(attempt)s, not_before = %(not_before)s, state = coalesce(nullif(%(state)s, ''), state)
WHERE thread = %(thread)s AND counter = %(counter)s AND commit_id = %(commit_id)s

-- name: asked
threads.thread > %(after)s AND state <> 'deleted'
    AND (%(owner)s::text IS NULL OR owner = %(owner)s) AND (%(agent)s::text IS NULL OR agent = %(agent)s)
    AND (%(state)s::text IS NULL OR state = %(state)s)
    AND (%(root)s::text IS NULL OR root = %(root)s) AND (%(parent)s::text IS NULL OR parent = %(parent)s)
    AND (purpose = %(purpose)s OR %(purpose)s::text IS NULL AND purpose <> 'compaction')

-- name: list_all
SELECT $columns FROM torpor.threads
WHERE $asked
ORDER BY thread LIMIT %(limit)s

-- name: list_of_parent
SELECT $columns FROM torpor.threads
WHERE parent = %(parent)s AND parent <> '' AND $asked
ORDER BY thread LIMIT %(limit)s

-- name: list_of_root
SELECT $columns FROM torpor.threads
WHERE (thread = %(root)s OR root = %(root)s AND parent <> '') AND $asked
ORDER BY thread LIMIT %(limit)s

-- name: list_of_owner
SELECT $columns FROM torpor.threads
WHERE owner = %(owner)s AND $asked
ORDER BY thread LIMIT %(limit)s

-- name: list_of_agent
SELECT $columns FROM torpor.threads
WHERE agent = %(agent)s AND $asked
ORDER BY thread LIMIT %(limit)s

-- name: list_not_open
SELECT $columns FROM torpor.threads
WHERE state = %(state)s AND state <> 'open' AND $asked
ORDER BY thread LIMIT %(limit)s

-- name: stranded
WITH found (number, since) AS (
    SELECT signals.thread, greatest(signals.due, signals.arrived)
    FROM torpor.signals JOIN torpor.threads ON threads.number = signals.thread
    WHERE signals.outcome IS NULL AND signals.due <= $now
        AND (threads.state <> 'closed' OR signals.kind IN ('born', 'reported'))
        AND (threads.not_before <= $now OR signals.kind IN ('stopped', 'closed', 'nudged', 'interrupt'))
    UNION ALL
    SELECT outbox.thread, greatest(outbox.not_before, outbox.claimed_until, outbox.created)
    FROM torpor.outbox
    WHERE outbox.not_before <= $now + %(ahead)s AND outbox.claimed_until <= $now + %(ahead)s
    UNION ALL
    SELECT threads.number, greatest(threads.not_before, threads.updated)
    FROM torpor.threads
    WHERE threads.owes AND threads.not_before <= $now
),
first (number, since) AS (SELECT number, min(since) FROM found GROUP BY number)
SELECT $columns, first.since
FROM first JOIN torpor.threads USING (number)
WHERE threads.state NOT IN ('moving', 'arriving', 'moved', 'deleted')
    AND (%(agents)s::text[] IS NULL OR threads.agent = ANY (%(agents)s::text[]))
ORDER BY first.since, number LIMIT %(limit)s OFFSET %(skip)s

-- name: numbered
SELECT number FROM torpor.threads WHERE thread = %(thread)s AND state <> 'deleted'

-- name: hold
WITH asked AS ($numbered),
held AS (
    UPDATE torpor.threads SET held_by = %(holder)s, held_until = %(until)s
    WHERE thread = %(thread)s AND state <> 'deleted' AND (held_by = %(holder)s OR held_until <= $now)
    RETURNING 1
)
SELECT asked.number, CASE
    WHEN EXISTS (SELECT FROM held) THEN 0
    WHEN threads.held_until > $now THEN threads.held_until
    ELSE greatest($now, %(until)s)  -- somebody who came at the same time has it, which is not seen here
END
FROM asked JOIN torpor.threads USING (number)

-- name: note
WITH noted AS ($numbered),
added AS (INSERT INTO torpor.records (thread, ended, body) SELECT number, %(ended)s, %(body)s FROM noted)
SELECT number FROM noted

-- name: note_once
WITH noted AS ($numbered),
added AS (
    INSERT INTO torpor.records (thread, ended, body) SELECT number, %(ended)s, %(body)s FROM noted
    WHERE NOT EXISTS (SELECT FROM torpor.records WHERE records.thread = noted.number AND body = %(body)s)
)
SELECT number FROM noted

-- name: read
SELECT asked.number, found.position, found.body
FROM ($numbered) AS asked
LEFT JOIN LATERAL (
    SELECT position, body FROM torpor.messages
    WHERE messages.thread = asked.number AND position > %(after)s ORDER BY position LIMIT %(limit)s
) AS found ON true
ORDER BY found.position

-- name: records
SELECT asked.number, found.body
FROM ($numbered) AS asked
LEFT JOIN LATERAL (
    SELECT number, body FROM torpor.records
    WHERE records.thread = asked.number ORDER BY number LIMIT %(limit)s OFFSET %(after)s
) AS found ON true
ORDER BY found.number

-- name: last_record
SELECT asked.number, records.body
FROM ($numbered) AS asked
LEFT JOIN torpor.records ON records.thread = asked.number
ORDER BY records.number DESC LIMIT 1
