-- A slice is written by one statement: its first part moves the thread on, if it is where the slice began, and
-- the parts that there is something for hang on that.

-- name: now
coalesce(%(now)s::float8, extract(epoch FROM statement_timestamp())::float8)

-- name: moved
moved AS (
    UPDATE torpor.threads SET
        counter = counter + 1, commit_id = %(commit_id)s, agent = %(agent)s, owner = %(owner)s,
        user_id = %(user_id)s, context = %(context)s, tier = %(tier)s, purpose = %(purpose)s, root = %(root)s,
        parent = %(parent)s, lineage = %(lineage)s, state = %(state)s, owes = %(owes)s, waits = %(waits)s,
        attempt = %(attempt)s, not_before = %(not_before)s, created = %(created)s, updated = %(updated)s,
        title = %(title)s, trace = %(trace)s, length = %(length)s, shape = %(shape)s, head = %(head)s,
        base = %(base)s, source = %(source)s
    WHERE thread = %(thread)s AND counter = %(counter)s AND commit_id = %(before)s
    RETURNING number, counter
)

-- name: appended
appended AS (
    INSERT INTO torpor.messages (thread, position, body)
    SELECT moved.number, given.position, given.body
    FROM moved, unnest(%(positions)s::bigint[], %(messages)s::bytea[]) AS given (position, body)
)

-- name: settled
settled AS (
    UPDATE torpor.signals SET settled = $now, outcome = given.outcome, body = ''
    FROM moved, unnest(%(absorbed)s::text[], %(outcomes)s::text[]) AS given (id, outcome)
    WHERE signals.thread = moved.number AND signals.id = given.id AND signals.outcome IS NULL
)

-- name: cancelled
cancelled AS (
    DELETE FROM torpor.signals USING moved
    WHERE signals.thread = moved.number AND signals.id = ANY (%(cancelled)s::text[])
        AND signals.outcome IS NULL
    RETURNING 1
)

-- name: timed
timed AS (
    INSERT INTO torpor.signals (thread, id, kind, due, arrived, body)
    SELECT moved.number, given.id, given.kind, given.due, $now, given.body
    FROM moved, unnest(%(timers)s::text[], %(kinds)s::text[], %(dues)s::float8[], %(bodies)s::bytea[])
        WITH ORDINALITY AS given (id, kind, due, body, place)
    ORDER BY given.place
    ON CONFLICT (thread, id) DO NOTHING
)

-- name: timed_after
timed AS (
    INSERT INTO torpor.signals (thread, id, kind, due, arrived, body)
    SELECT moved.number, given.id, given.kind, given.due, $now, given.body
    FROM moved, unnest(%(timers)s::text[], %(kinds)s::text[], %(dues)s::float8[], %(bodies)s::bytea[])
        WITH ORDINALITY AS given (id, kind, due, body, place)
    WHERE (SELECT count(*) FROM cancelled) >= 0
    ORDER BY given.place
    ON CONFLICT (thread, id) DO NOTHING
)

-- name: decided
decided AS (
    INSERT INTO torpor.outbox (thread, id, attempt, not_before, claimed_until, holder, created, body)
    SELECT moved.number, given.id, %(tries)s, 0, %(claimed_until)s, %(holder)s, $now, given.body
    FROM moved, unnest(%(effects)s::text[], %(decided)s::bytea[])
        WITH ORDINALITY AS given (id, body, place)
    ORDER BY given.place
    ON CONFLICT (thread, id) DO NOTHING
)

-- name: recorded
recorded AS (
    INSERT INTO torpor.records (thread, ended, body) SELECT number, %(ended)s, %(record)s FROM moved
)

-- name: result
SELECT counter FROM moved
