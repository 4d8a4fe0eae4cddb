-- name: now
coalesce(%(now)s::float8, extract(epoch FROM statement_timestamp())::float8)

-- name: asked
SELECT number FROM torpor.threads WHERE thread = %(thread)s AND state <> 'deleted'

-- name: all
SELECT asked.number, outbox.body, outbox.attempt, outbox.not_before, outbox.claimed_until
FROM ($asked) AS asked LEFT JOIN torpor.outbox ON outbox.thread = asked.number
ORDER BY outbox.number

-- name: claim
WITH asked AS ($asked),
held AS (
    UPDATE torpor.outbox SET
        attempt = CASE WHEN claimed_until > $now THEN attempt ELSE attempt + 1 END,
        not_before = CASE WHEN claimed_until > $now THEN not_before ELSE greatest(0, not_before) END,
        claimed_until = %(until)s,
        holder = %(holder)s
    FROM asked
    WHERE outbox.thread = asked.number AND outbox.id = ANY (%(ids)s::text[]) AND CASE
        WHEN outbox.claimed_until > $now THEN outbox.holder = %(holder)s ELSE outbox.not_before <= $now
    END
    RETURNING outbox.id, outbox.body, outbox.attempt, outbox.not_before
)
SELECT asked.number, held.id, held.body, held.attempt, held.not_before
FROM asked LEFT JOIN held ON true

-- name: delivered
WITH asked AS ($asked),
dropped AS (
    DELETE FROM torpor.outbox USING asked
    WHERE outbox.thread = asked.number AND outbox.id = ANY (%(ids)s::text[])
)
SELECT number FROM asked

-- name: release
WITH asked AS ($asked),
freed AS (
    UPDATE torpor.outbox SET
        claimed_until = 0,
        not_before = CASE WHEN not_before < 0 THEN 0 ELSE %(not_before)s END,
        attempt = attempt - (NOT %(begun)s AND holder = %(holder)s AND claimed_until > 0)::int
    FROM asked
    WHERE outbox.thread = asked.number AND outbox.id = ANY (%(ids)s::text[])
        AND (outbox.claimed_until <= $now OR outbox.holder = %(holder)s)
)
SELECT number FROM asked

-- name: hasten
WITH asked AS ($asked),
hastened AS (
    UPDATE torpor.outbox SET not_before = -1
    FROM asked WHERE outbox.thread = asked.number AND outbox.id = ANY (%(ids)s::text[])
)
SELECT number FROM asked
