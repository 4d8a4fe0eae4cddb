-- serves: 1
-- The doorbell. NOT ready: not before ready_at, which for a leased thread is the end of its lease.
-- Functions end in the number of the schema that brought them: processes of two releases may run at once.
CREATE TABLE torpor.rings (
    thread text COLLATE "C" PRIMARY KEY,
    agent text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    tier smallint NOT NULL,
    ring_at double precision NOT NULL,
    start_by double precision NOT NULL,
    not_before double precision NOT NULL,
    ready boolean NOT NULL,
    ready_at double precision NOT NULL,
    token text COLLATE "C" NOT NULL DEFAULT '',
    attempt integer NOT NULL DEFAULT 0,
    rung boolean NOT NULL DEFAULT true,
    cut boolean NOT NULL DEFAULT false
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1
);
CREATE INDEX rings_ready ON torpor.rings (tier, start_by) WHERE ready;
CREATE INDEX rings_by_owner ON torpor.rings (owner, tier, start_by) WHERE ready;
CREATE INDEX rings_later ON torpor.rings (ready_at) WHERE NOT ready;
CREATE INDEX rings_in_flight ON torpor.rings (owner) WHERE token <> '' AND NOT ready;

CREATE FUNCTION torpor.rings_moment_2(given_now double precision) RETURNS double precision
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given_now, extract(epoch FROM clock_timestamp())::double precision)
$$;

-- Rings, and leases that are given back, in order. ``kind``: ring, done, retry, put_back. ``tell``: nobody waits
-- for it where it comes from; ``age``: seconds since it was rung. Gives the agents, tiers and instants of what was given back and is rung.
CREATE FUNCTION torpor.rings_note_2(
    given_now double precision, kinds text[], threads text[], tokens text[], agents text[], owners text[],
    tiers bigint[], start_bys double precision[], not_befores double precision[], cuts boolean[],
    tells boolean[], ages double precision[], OUT back_agents text[], OUT back_tiers smallint[], OUT back_ats double precision[]
) LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    moment double precision := torpor.rings_moment_2(given_now);
    one record;
    kept record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR one IN
        SELECT * FROM unnest(
            kinds, threads, tokens, agents, owners, tiers, start_bys, not_befores, cuts, tells, ages
        ) AS o (kind, thread, token, agent, owner, tier, start_by, not_before, cut, tell, age)
    LOOP
        kept := NULL;
        IF one.kind = 'ring' THEN
            INSERT INTO torpor.rings AS r (
                thread, agent, owner, tier, ring_at, start_by, not_before, ready, ready_at
            ) VALUES (
                one.thread, one.agent, one.owner, one.tier, greatest(moment - one.age, one.not_before), one.start_by,
                one.not_before, one.not_before <= moment, greatest(moment - one.age, one.not_before)
            )
            ON CONFLICT (thread) DO UPDATE SET
                agent = CASE excluded.agent WHEN '' THEN r.agent ELSE excluded.agent END,
                owner = CASE excluded.owner WHEN '' THEN r.owner ELSE excluded.owner END,
                tier = CASE WHEN r.rung THEN least(r.tier, excluded.tier) ELSE excluded.tier END,
                ring_at = CASE WHEN r.rung THEN least(r.ring_at, excluded.ring_at) ELSE excluded.ring_at END,
                start_by = CASE WHEN r.rung THEN least(r.start_by, excluded.start_by) ELSE excluded.start_by END,
                not_before = CASE
                    WHEN r.rung THEN least(r.not_before, excluded.not_before) ELSE excluded.not_before
                END,
                ready = CASE r.token WHEN '' THEN r.ready OR excluded.ready ELSE r.ready END,
                ready_at = CASE r.token WHEN '' THEN least(r.ready_at, excluded.ready_at) ELSE r.ready_at END,
                rung = true,
                cut = r.cut OR (one.cut AND r.token <> '')
            WHERE NOT r.rung OR excluded.tier < r.tier OR excluded.ring_at < r.ring_at
                OR excluded.start_by < r.start_by OR excluded.not_before < r.not_before
                OR (one.cut AND r.token <> '')
            RETURNING r.agent, r.tier, r.not_before, r.token INTO kept;
        ELSIF one.kind = 'put_back' THEN
            UPDATE torpor.rings r SET ready = true, ready_at = r.ring_at, token = '', rung = true
            WHERE r.thread = one.thread AND r.token = one.token
            RETURNING r.agent, r.tier, r.not_before, r.token INTO kept;
        ELSE
            IF one.not_before <= 0 THEN
                DELETE FROM torpor.rings r WHERE r.thread = one.thread AND r.token = one.token AND NOT r.rung;
                CONTINUE WHEN FOUND;
            END IF;
            UPDATE torpor.rings r SET
                token = '',
                cut = false,
                rung = true,
                attempt = CASE one.kind WHEN 'done' THEN 0 ELSE r.attempt END,
                ready = w.at <= moment,
                ready_at = w.ring_at,
                ring_at = w.ring_at,
                not_before = w.at,
                start_by = CASE
                    WHEN one.not_before <= 0 THEN r.start_by
                    WHEN r.rung THEN least(r.start_by, one.start_by)
                    ELSE one.start_by
                END
            FROM (
                SELECT
                    CASE
                        WHEN one.not_before <= 0 THEN o.not_before
                        WHEN o.rung THEN least(o.not_before, one.not_before)
                        ELSE one.not_before
                    END AS at,
                    CASE
                        WHEN one.not_before <= 0 THEN o.ring_at
                        WHEN o.rung THEN least(o.ring_at, greatest(one.not_before, moment))
                        ELSE greatest(one.not_before, moment)
                    END AS ring_at
                FROM torpor.rings o WHERE o.thread = one.thread AND o.token = one.token FOR UPDATE
            ) w
            WHERE r.thread = one.thread AND r.token = one.token
            RETURNING r.agent, r.tier, r.not_before, r.token INTO kept;
        END IF;
        CONTINUE WHEN kept IS NULL OR kept.token <> '';
        IF one.kind <> 'ring' THEN
            back_agents := back_agents || kept.agent;
            back_tiers := back_tiers || kept.tier;
            back_ats := back_ats || kept.not_before;
        END IF;
        IF one.tell AND kept.not_before < moment + 60 THEN
            PERFORM pg_notify(
                'torpor_rings', concat_ws(' ', kept.tier, kept.not_before, left(kept.agent, 1000))
            );
        END IF;
    END LOOP;
END
$$;

-- Up to ``most`` leases, those that must start first before others; none for an owner that has ``cap`` of them.
-- A last row without a thread follows where there are fewer: ring_at is the server's time, start_by when to look
-- again, attempt 1 if there is work for which its owner has no room (or that somebody else is just taking), owner
-- the owners that have none, between separators.
CREATE FUNCTION torpor.rings_claim_2(
    given_now double precision, for_token text, seconds double precision, for_agents text[], for_tiers bigint,
    cap bigint, most bigint
) RETURNS TABLE (
    thread text, ring_at double precision, start_by double precision, tier smallint, owner text, agent text,
    attempt integer
) LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    moment double precision := torpor.rings_moment_2(given_now);
    busy text[] := '{}';
    chosen text[];
    leased bigint;
    missing bigint := most;
    next_at double precision;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE torpor.rings SET ready = true WHERE thread IN (
        SELECT thread FROM torpor.rings WHERE NOT ready AND ready_at <= moment
        ORDER BY ready_at LIMIT 500 FOR UPDATE SKIP LOCKED
    );
    IF cap > 0 THEN
        busy := torpor.rings_busy_2(cap);
    END IF;
    FOR round IN 1..4 LOOP
        chosen := torpor.rings_choose_2(for_agents, for_tiers, busy, missing);
        EXIT WHEN chosen IS NULL;
        IF cap > 0 THEN
            chosen := torpor.rings_within_2(chosen, cap, round = 1);
        END IF;
        RETURN QUERY
            UPDATE torpor.rings r SET
                ready = false, ready_at = moment + seconds, token = for_token, rung = false, cut = false,
                attempt = r.attempt + (r.token <> '')::integer
            WHERE r.thread = ANY (chosen)
            RETURNING r.thread, r.ring_at, r.start_by, r.tier, r.owner, r.agent, r.attempt;
        GET DIAGNOSTICS leased = ROW_COUNT;
        missing := missing - leased;
        EXIT WHEN missing <= 0 OR cap <= 0;
        busy := torpor.rings_busy_2(cap);
        EXIT WHEN busy = '{}';
    END LOOP;
    IF missing > 0 THEN
        SELECT w.ready_at INTO next_at FROM (
            SELECT ready_at, agent, tier FROM torpor.rings WHERE NOT ready ORDER BY ready_at LIMIT 1000
        ) w
        WHERE (for_agents IS NULL OR w.agent = ANY (for_agents)) AND (for_tiers >> w.tier) & 1 = 1
        LIMIT 1;
        IF next_at IS NULL THEN
            SELECT ready_at INTO next_at FROM torpor.rings WHERE NOT ready ORDER BY ready_at OFFSET 999 LIMIT 1;
        END IF;
        RETURN QUERY SELECT NULL, moment, next_at, 0::smallint, array_to_string(busy, chr(31)), '', EXISTS (
            SELECT 1 FROM torpor.rings
            WHERE ready AND (for_agents IS NULL OR agent = ANY (for_agents)) AND (for_tiers >> tier) & 1 = 1
        )::integer;
    END IF;
END
$$;

-- The owners that have as many leases as they may.
CREATE FUNCTION torpor.rings_busy_2(cap bigint) RETURNS text[]
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    RETURN ARRAY(
        SELECT owner FROM torpor.rings WHERE token <> '' AND NOT ready AND owner <> ''
        GROUP BY owner HAVING count(*) >= cap
    );
END
$$;

-- Locks and gives the first ready threads that nobody else is just taking. Where owners are busy, the most urgent
-- threads of each other owner are looked up: a flood is not read through.
CREATE FUNCTION torpor.rings_choose_2(for_agents text[], for_tiers bigint, busy text[], most bigint) RETURNS text[]
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    found text[];
BEGIN
    IF busy = '{}' THEN
        RETURN (
            SELECT array_agg(c.thread) FROM (
                SELECT r.thread FROM torpor.rings r
                WHERE r.ready AND (for_agents IS NULL OR r.agent = ANY (for_agents))
                    AND (for_tiers >> r.tier) & 1 = 1
                ORDER BY r.tier, r.start_by LIMIT most FOR UPDATE SKIP LOCKED
            ) c
        );
    END IF;
    WITH RECURSIVE o (owner) AS (
        (SELECT r.owner FROM torpor.rings r WHERE r.ready ORDER BY r.owner LIMIT 1)
        UNION ALL
        SELECT (SELECT r.owner FROM torpor.rings r WHERE r.ready AND r.owner > o.owner ORDER BY r.owner LIMIT 1)
        FROM o WHERE o.owner IS NOT NULL
    )
    SELECT array_agg(c.thread) INTO found FROM (
        SELECT f.thread FROM o CROSS JOIN LATERAL (
            SELECT r.thread, r.tier, r.start_by FROM torpor.rings r
            WHERE r.ready AND r.owner = o.owner AND (for_agents IS NULL OR r.agent = ANY (for_agents))
                AND (for_tiers >> r.tier) & 1 = 1
            ORDER BY r.tier, r.start_by LIMIT 2 * most
        ) f
        WHERE o.owner <> ALL (busy)
        ORDER BY f.tier, f.start_by LIMIT 4 * most
    ) c;
    RETURN (
        SELECT array_agg(c.thread) FROM (
            SELECT r.thread FROM torpor.rings r WHERE r.thread = ANY (found) AND r.ready
            ORDER BY r.tier + 0, r.start_by LIMIT most FOR UPDATE SKIP LOCKED  -- by thread, not in this order
        ) c
    );
END
$$;

-- Those of some locked threads whose owners have room for them. An owner is counted under a lock of its own, so
-- that claims at once keep its cap; ``waits``: wait for these locks, rather than pass over who is being counted.
CREATE FUNCTION torpor.rings_within_2(chosen text[], cap bigint, waits boolean) RETURNS text[]
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    keys integer[] := ARRAY(
        SELECT DISTINCT hashtext(owner) FROM torpor.rings WHERE thread = ANY (chosen) AND owner <> '' ORDER BY 1
    );
    key integer;
    ours integer[] := '{}';
BEGIN
    FOREACH key IN ARRAY keys LOOP
        IF waits THEN
            PERFORM pg_advisory_xact_lock(1416590962, key);
            ours := ours || key;
        ELSIF pg_try_advisory_xact_lock(1416590962, key) THEN
            ours := ours || key;
        END IF;
    END LOOP;
    RETURN ARRAY(
        SELECT c.thread FROM (
            SELECT r.thread, r.owner, row_number() OVER (PARTITION BY r.owner ORDER BY r.tier, r.start_by) + (
                SELECT count(*) FROM torpor.rings f WHERE f.token <> '' AND NOT f.ready AND f.owner = r.owner
            ) AS place
            FROM torpor.rings r WHERE r.thread = ANY (chosen)
        ) c
        WHERE c.owner = '' OR (c.place <= cap AND hashtext(c.owner) = ANY (ours))
    );
END
$$;

-- Renews leases if one of them has less than two thirds of its time left, or is to be told of a cut.
CREATE FUNCTION torpor.rings_extend_2(given_now double precision, seconds double precision, threads text[], tokens text[])
RETURNS TABLE (thread text, token text, until double precision, cut boolean)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    moment double precision := torpor.rings_moment_2(given_now);
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM unnest(threads, tokens) w (t, k) JOIN torpor.rings r ON r.thread = w.t AND r.token = w.k
        WHERE r.cut OR r.ready OR r.ready_at < moment + seconds * 2 / 3
    ) THEN
        RETURN QUERY
            SELECT r.thread, r.token, r.ready_at, false
            FROM unnest(threads, tokens) w (t, k) JOIN torpor.rings r ON r.thread = w.t AND r.token = w.k;
        RETURN;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY
        WITH held AS (
            SELECT r.thread, r.token, r.cut
            FROM unnest(threads, tokens) w (t, k) JOIN torpor.rings r ON r.thread = w.t AND r.token = w.k
            ORDER BY r.thread FOR UPDATE OF r
        ), renewed AS (
            UPDATE torpor.rings u SET ready = false, ready_at = moment + seconds, cut = false
            FROM held WHERE u.thread = held.thread
        )
        SELECT held.thread, held.token, moment + seconds, held.cut FROM held;
END
$$;
