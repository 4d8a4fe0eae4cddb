-- name: now
coalesce(%(now)s::float8, extract(epoch FROM statement_timestamp())::float8)

-- name: addressed
SELECT number, thread, agent, owner, tier FROM torpor.threads

-- name: add
INSERT INTO torpor.signals (thread, id, kind, due, arrived, body)
SELECT addressed.number, %(id)s, %(kind)s, %(due)s, $now, %(body)s FROM addressed
ON CONFLICT (thread, id) DO NOTHING RETURNING number

-- name: post
WITH addressed AS ($addressed WHERE thread = %(thread)s AND state <> 'deleted' FOR KEY SHARE),
added AS ($add)
SELECT addressed.agent, addressed.owner, addressed.tier, added.number IS NOT NULL
FROM addressed LEFT JOIN added ON true

-- name: finish
WITH addressed AS ($addressed WHERE thread = %(thread)s AND state <> 'deleted' FOR KEY SHARE),
added AS ($add),
delivered AS (
    DELETE FROM torpor.outbox USING addressed
    WHERE outbox.thread = addressed.number AND outbox.id = %(effect)s
)
SELECT addressed.agent, addressed.owner, addressed.tier, added.number IS NOT NULL
FROM addressed LEFT JOIN added ON true

-- name: post_many
-- Threads and ids are locked in one order by all, numbers given in the order of arrival.
WITH given AS MATERIALIZED (
    SELECT nextval('torpor.signals_number') AS number, each.*
    FROM unnest(
        %(threads)s::text[], %(ids)s::text[], %(kinds)s::text[], %(dues)s::float8[], %(bodies)s::bytea[]
    ) WITH ORDINALITY AS each (thread, id, kind, due, body, place)
),
addressed AS MATERIALIZED (
    $addressed WHERE thread = ANY (%(threads)s::text[]) AND state <> 'deleted' ORDER BY number FOR KEY SHARE
),
added AS (
    INSERT INTO torpor.signals (number, thread, id, kind, due, arrived, body)
    SELECT given.number, addressed.number, given.id, given.kind, given.due, $now, given.body
    FROM given JOIN addressed USING (thread)
    ORDER BY addressed.number, given.id, given.place
    ON CONFLICT (thread, id) DO NOTHING RETURNING number
)
SELECT addressed.agent, addressed.owner, addressed.tier, added.number IS NOT NULL
FROM given LEFT JOIN addressed USING (thread) LEFT JOIN added ON added.number = given.number
ORDER BY given.place

-- name: open
SELECT asked.number, signals.body
FROM (SELECT number FROM torpor.threads WHERE thread = %(thread)s AND state <> 'deleted') AS asked
LEFT JOIN torpor.signals ON signals.thread = asked.number AND signals.outcome IS NULL
ORDER BY signals.number

-- name: outcome
SELECT coalesce(outcome, '') FROM torpor.signals
WHERE id = %(id)s
    AND thread = (SELECT number FROM torpor.threads WHERE thread = %(thread)s AND state <> 'deleted')
