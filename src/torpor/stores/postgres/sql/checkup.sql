-- name: server
SELECT
    current_setting('server_version'),
    extract(epoch FROM statement_timestamp())::float8,
    pg_database_size(current_database()),
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
    pg_backend_pid(),
    coalesce((
        SELECT extract(epoch FROM max(statement_timestamp() - xact_start)) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend'
    ), 0)::float8

-- name: settings
SELECT name, setting FROM pg_settings
WHERE name IN (
    'fsync', 'synchronous_commit', 'full_page_writes', 'autovacuum', 'statement_timeout', 'lock_timeout',
    'idle_session_timeout'
)

-- name: threads
WITH RECURSIVE agents (agent) AS (
    (SELECT agent FROM torpor.threads ORDER BY agent LIMIT 1)
    UNION ALL
    SELECT (SELECT threads.agent FROM torpor.threads WHERE threads.agent > agents.agent ORDER BY 1 LIMIT 1)
    FROM agents WHERE agents.agent IS NOT NULL
)
SELECT
    coalesce((SELECT max(updated) FROM (
        SELECT updated FROM torpor.threads ORDER BY number DESC LIMIT 1000
    ) AS latest), 0),
    (SELECT count(*) FROM torpor.threads WHERE state = 'parked' AND state <> 'open'),
    ARRAY(
        SELECT agent FROM agents WHERE EXISTS (
            SELECT FROM torpor.threads
            WHERE threads.agent = agents.agent AND state NOT IN ('closed', 'moved', 'deleted')
        )
    )

-- name: due
WITH found (number, since) AS (
    SELECT signals.thread, greatest(signals.due, signals.arrived)
    FROM torpor.signals JOIN torpor.threads ON threads.number = signals.thread
    WHERE signals.outcome IS NULL AND signals.due <= %(now)s
        AND (threads.state <> 'closed' OR signals.kind IN ('born', 'reported'))
        AND (threads.not_before <= %(now)s OR signals.kind IN ('stopped', 'closed', 'nudged', 'interrupt'))
    UNION ALL
    SELECT outbox.thread, greatest(outbox.not_before, outbox.claimed_until, outbox.created)
    FROM torpor.outbox WHERE outbox.not_before <= %(now)s AND outbox.claimed_until <= %(now)s
    UNION ALL
    SELECT threads.number, greatest(threads.not_before, threads.updated)
    FROM torpor.threads WHERE threads.owes AND threads.not_before <= %(now)s
),
first (number, since) AS (SELECT number, min(since) FROM found GROUP BY number),
each (agent, tier, since, is_held) AS (
    SELECT threads.agent, threads.tier, first.since, threads.held_until > %(now)s OR EXISTS (
        SELECT FROM torpor.rings
        WHERE rings.thread = threads.thread AND token <> '' AND NOT ready AND ready_at > %(now)s
    )
    FROM first JOIN torpor.threads USING (number)
    WHERE threads.state NOT IN ('moving', 'arriving', 'moved', 'deleted')
)
SELECT
    agent, tier, count(*) FILTER (WHERE NOT is_held), coalesce(min(since) FILTER (WHERE NOT is_held), 0),
    count(*) FILTER (WHERE is_held)
FROM each GROUP BY agent, tier ORDER BY agent, tier

-- name: rings
SELECT
    count(*) FILTER (WHERE token <> '' AND NOT ready AND ready_at > %(now)s),
    count(*) FILTER (WHERE ready OR ready_at <= %(now)s),
    coalesce(min(ring_at) FILTER (WHERE ready OR ready_at <= %(now)s), 0)
FROM torpor.rings

-- name: effects
SELECT
    count(*), count(*) FILTER (WHERE claimed_until > 0 AND claimed_until <= %(now)s AND not_before <= %(now)s),
    coalesce(min(claimed_until) FILTER (
        WHERE claimed_until > 0 AND claimed_until <= %(now)s AND not_before <= %(now)s
    ), 0)
FROM torpor.outbox
