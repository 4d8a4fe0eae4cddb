-- name: now
coalesce(%(now)s::float8, extract(epoch FROM statement_timestamp())::float8)

-- name: number
(SELECT number FROM torpor.threads WHERE thread = %(thread)s AND state <> 'deleted')

-- name: messages
SELECT position, body FROM torpor.messages WHERE thread = $number ORDER BY position

-- name: inbox
SELECT body, arrived FROM torpor.signals WHERE thread = $number AND outcome IS NULL ORDER BY number

-- name: absorbed
SELECT id, settled, outcome FROM torpor.signals WHERE thread = $number AND outcome IS NOT NULL ORDER BY id

-- name: outbox
SELECT body, attempt, not_before, 0::float8, created FROM torpor.outbox WHERE thread = $number ORDER BY number

-- name: records
SELECT body FROM torpor.records WHERE thread = $number ORDER BY number

-- name: blobs
SELECT hash, body FROM torpor.blobs WHERE thread = %(thread)s ORDER BY hash

-- name: views
SELECT key, value FROM torpor.small WHERE space = %(space)s ORDER BY key

-- name: drop_copy
WITH old AS (
    DELETE FROM torpor.threads
    WHERE thread = %(thread)s AND state IN ('arriving', 'moved') AND counter <= %(counter)s
    RETURNING number
),
messages AS (DELETE FROM torpor.messages AS each USING old WHERE each.thread = old.number),
signals AS (DELETE FROM torpor.signals AS each USING old WHERE each.thread = old.number),
outbox AS (DELETE FROM torpor.outbox AS each USING old WHERE each.thread = old.number),
records AS (DELETE FROM torpor.records AS each USING old WHERE each.thread = old.number),
blobs AS (DELETE FROM torpor.blobs AS each USING old WHERE each.thread = %(thread)s),
views AS (DELETE FROM torpor.small AS each USING old WHERE each.space = %(space)s)
SELECT number FROM old

-- name: take_in
WITH added AS (
    INSERT INTO torpor.threads (
        thread, agent, counter, commit_id, owner, user_id, context, tier, purpose, root, parent, lineage, state,
        owes, waits, attempt, not_before, created, updated, title, trace, length, shape, head, base, source
    ) VALUES (
        %(thread)s, %(agent)s, %(counter)s, %(commit_id)s, %(owner)s, %(user_id)s, %(context)s, %(tier)s,
        %(purpose)s, %(root)s, %(parent)s, %(lineage)s, %(state)s, %(owes)s, %(waits)s, %(attempt)s,
        %(not_before)s, %(created)s, %(updated)s, %(title)s, %(trace)s, %(length)s, %(shape)s, %(head)s, %(base)s,
        %(source)s
    ) ON CONFLICT (thread) DO NOTHING
    RETURNING number
),
messages AS (
    INSERT INTO torpor.messages (thread, position, body)
    SELECT added.number, given.position, given.body
    FROM added, unnest(%(positions)s::bigint[], %(messages)s::bytea[]) AS given (position, body)
),
waiting AS (
    INSERT INTO torpor.signals (thread, id, kind, due, arrived, body)
    SELECT added.number, given.id, given.kind, given.due, given.arrived, given.body
    FROM added, unnest(
        %(ids)s::text[], %(kinds)s::text[], %(dues)s::float8[], %(arrived)s::float8[], %(bodies)s::bytea[]
    ) WITH ORDINALITY AS given (id, kind, due, arrived, body, place)
    ORDER BY given.place
),
absorbed AS (
    INSERT INTO torpor.signals (thread, id, kind, due, arrived, settled, outcome, body)
    SELECT added.number, given.id, '', 0, 0, given.settled, given.outcome, ''
    FROM added, unnest(%(absorbed)s::text[], %(settled)s::float8[], %(outcomes)s::text[])
        AS given (id, settled, outcome)
),
effects AS (
    INSERT INTO torpor.outbox (thread, id, attempt, not_before, claimed_until, holder, created, body)
    SELECT added.number, given.id, given.attempt, given.not_before, 0, '', given.created, given.body
    FROM added, unnest(
        %(effects)s::text[], %(attempts)s::bigint[], %(not_befores)s::float8[], %(createds)s::float8[],
        %(decided)s::bytea[]
    ) WITH ORDINALITY AS given (id, attempt, not_before, created, body, place)
    ORDER BY given.place
),
records AS (
    INSERT INTO torpor.records (thread, ended, body)
    SELECT added.number, given.ended, given.body
    FROM added, unnest(%(ends)s::float8[], %(records)s::bytea[]) WITH ORDINALITY AS given (ended, body, place)
    ORDER BY given.place
),
blobs AS (
    INSERT INTO torpor.blobs (thread, hash, at, body)
    SELECT %(thread)s, given.hash, $now, given.body
    FROM added, unnest(%(hashes)s::text[], %(blobs)s::bytea[]) AS given (hash, body)
    ON CONFLICT (thread, hash) DO NOTHING
),
views AS (
    INSERT INTO torpor.small (space, key, value, at)
    SELECT %(space)s, given.key, given.value, $now
    FROM added, unnest(%(keys)s::text[], %(values)s::bytea[]) AS given (key, value)
    ON CONFLICT (space, key) DO UPDATE SET value = excluded.value, at = excluded.at
)
SELECT number FROM added
