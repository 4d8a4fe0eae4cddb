-- name: threads
SELECT
    coalesce((SELECT max(updated) FROM (
        SELECT updated FROM threads ORDER BY number DESC LIMIT 1000
    )), 0),
    (SELECT count(*) FROM threads WHERE state = 'parked' AND state <> 'open')

-- name: agents
WITH RECURSIVE known (agent) AS (
    SELECT min(agent) FROM threads
    UNION ALL
    SELECT (SELECT min(agent) FROM threads WHERE agent > known.agent)
    FROM known WHERE known.agent IS NOT NULL
)
SELECT agent FROM known
WHERE EXISTS (
    SELECT 1 FROM threads INDEXED BY threads_of_agent
    WHERE threads.agent = known.agent AND state NOT IN ('closed', 'moved', 'deleted')
)
ORDER BY agent

-- name: due
WITH found (number, since) AS (
    SELECT inbox.thread, max(inbox.due, inbox.arrived)
    FROM inbox JOIN threads ON threads.number = inbox.thread
    WHERE inbox.due <= :now AND (threads.state <> 'closed' OR inbox.kind IN ('born', 'reported'))
        AND (threads.not_before <= :now OR inbox.kind IN ('stopped', 'closed', 'nudged', 'interrupt'))
    UNION ALL
    SELECT outbox.thread, max(outbox.not_before, outbox.claimed_until, outbox.created)
    FROM outbox WHERE outbox.not_before <= :now AND outbox.claimed_until <= :now
    UNION ALL
    SELECT threads.number, max(threads.not_before, threads.updated)
    FROM threads WHERE threads.owes AND threads.not_before <= :now
),
first (number, since) AS (SELECT number, min(since) FROM found GROUP BY number),
each (agent, tier, since, is_held) AS (
    SELECT threads.agent, threads.tier, first.since, threads.held_until > :now OR EXISTS (
        SELECT 1 FROM rings
        WHERE rings.thread = threads.thread AND token <> '' AND NOT ready AND ready_at > :now
    )
    FROM first JOIN threads USING (number)
    WHERE threads.state NOT IN ('moving', 'arriving', 'moved', 'deleted')
)
SELECT
    agent, tier, sum(NOT is_held), coalesce(min(CASE WHEN is_held THEN NULL ELSE since END), 0), sum(is_held)
FROM each GROUP BY agent, tier ORDER BY agent, tier

-- name: rings
SELECT
    coalesce(sum(token <> '' AND NOT ready AND ready_at > :now), 0),
    coalesce(sum(ready OR ready_at <= :now), 0),
    coalesce(min(CASE WHEN ready OR ready_at <= :now THEN ring_at END), 0)
FROM rings

-- name: effects
SELECT
    count(*), coalesce(sum(claimed_until > 0 AND claimed_until <= :now AND not_before <= :now), 0),
    coalesce(min(CASE WHEN claimed_until > 0 AND claimed_until <= :now AND not_before <= :now
        THEN claimed_until END), 0)
FROM outbox
