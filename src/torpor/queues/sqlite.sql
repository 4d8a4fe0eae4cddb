-- name: ring
INSERT INTO rings (thread, agent, owner, tier, ring_at, start_by, not_before, ready, ready_at, cut)
VALUES (:thread, :agent, :owner, :tier, :ring_at, :start_by, :not_before, :ready, :ring_at, 0)
ON CONFLICT (thread) DO UPDATE SET
    agent = CASE excluded.agent WHEN '' THEN agent ELSE excluded.agent END,
    owner = CASE excluded.owner WHEN '' THEN owner ELSE excluded.owner END,
    tier = CASE WHEN rung THEN min(tier, excluded.tier) ELSE excluded.tier END,
    ring_at = CASE WHEN rung THEN min(ring_at, excluded.ring_at) ELSE excluded.ring_at END,
    start_by = CASE WHEN rung THEN min(start_by, excluded.start_by) ELSE excluded.start_by END,
    not_before = CASE WHEN rung THEN min(not_before, excluded.not_before) ELSE excluded.not_before END,
    ready = CASE token WHEN '' THEN max(ready, excluded.ready) ELSE ready END,
    ready_at = CASE token WHEN '' THEN min(ready_at, excluded.ready_at) ELSE ready_at END,
    rung = 1,
    cut = max(cut, :cut AND token <> '')
WHERE NOT rung OR excluded.tier < tier OR excluded.ring_at < ring_at OR excluded.start_by < start_by
    OR excluded.not_before < not_before OR (:cut AND token <> '')

-- name: promote
UPDATE rings SET ready = 1 WHERE NOT ready AND ready_at <= :now

-- name: ready
SELECT thread, ring_at, start_by, tier, owner, agent, attempt + (token <> '')
FROM rings
WHERE ready AND (:agents IS NULL OR instr(:agents, :mark || agent || :mark)) AND (:tiers >> tier) & 1
ORDER BY tier, start_by LIMIT :limit

-- name: in_flight
SELECT owner, count(*) FROM rings WHERE token <> '' AND NOT ready AND owner <> '' GROUP BY owner

-- name: owners
WITH RECURSIVE owners (owner) AS (
    SELECT min(owner) FROM rings WHERE ready
    UNION ALL
    SELECT (SELECT min(owner) FROM rings WHERE ready AND owner > owners.owner)
    FROM owners WHERE owners.owner IS NOT NULL
)
SELECT owner FROM owners WHERE owner IS NOT NULL

-- name: ready_of_owner
SELECT thread, ring_at, start_by, tier, owner, agent, attempt + (token <> '')
FROM rings
WHERE ready AND owner = :owner
    AND (:agents IS NULL OR instr(:agents, :mark || agent || :mark)) AND (:tiers >> tier) & 1
ORDER BY tier, start_by LIMIT :limit

-- name: owner_waits
SELECT 1 FROM rings WHERE ready AND owner = ? AND owner <> '' LIMIT 1

-- name: take
UPDATE rings SET ready = 0, ready_at = ?, token = ?, attempt = ?, rung = 0, cut = 0 WHERE thread = ?

-- name: put_back
UPDATE rings SET ready = 1, ready_at = ring_at, token = '', rung = 1 WHERE thread = ? AND token = ?

-- name: held
SELECT ready_at, cut FROM rings WHERE thread = ? AND token = ?

-- name: extend
UPDATE rings SET ready = 0, ready_at = ?, cut = 0 WHERE thread = ? AND token = ?

-- name: leave
DELETE FROM rings WHERE thread = :thread AND token = :token AND NOT rung

-- name: give_back
UPDATE rings SET
    token = '', cut = 0, rung = 1,
    attempt = CASE WHEN :finished THEN 0 ELSE attempt END,
    ready = CASE
        WHEN :at <= 0 THEN not_before <= :now
        WHEN rung THEN min(not_before, :at) <= :now
        ELSE :at <= :now
    END,
    ready_at = CASE
        WHEN :at <= 0 THEN ring_at
        WHEN rung THEN min(ring_at, max(:at, :now))
        ELSE max(:at, :now)
    END,
    ring_at = CASE
        WHEN :at <= 0 THEN ring_at
        WHEN rung THEN min(ring_at, max(:at, :now))
        ELSE max(:at, :now)
    END,
    start_by = CASE
        WHEN :at <= 0 THEN start_by
        WHEN rung THEN min(start_by, :start_by)
        ELSE :start_by
    END,
    not_before = CASE
        WHEN :at <= 0 THEN not_before
        WHEN rung THEN min(not_before, :at)
        ELSE :at
    END
WHERE thread = :thread AND token = :token

-- name: given_back
SELECT agent, tier, not_before FROM rings WHERE thread = ?

-- name: size
SELECT count(*) FROM rings

-- name: next_at
SELECT min(ready_at) FROM rings
WHERE :agents IS NULL OR instr(:agents, :mark || agent || :mark)

-- name: next_change
SELECT ready_at FROM rings
WHERE NOT ready AND (:agents IS NULL OR instr(:agents, :mark || agent || :mark)) AND (:tiers >> tier) & 1
ORDER BY ready_at LIMIT 1

-- name: file_version
PRAGMA data_version
