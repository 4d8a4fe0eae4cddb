-- name: note
SELECT * FROM torpor.rings_note_2(
    %(now)s::float8, %(kinds)s::text[], %(threads)s::text[], %(tokens)s::text[], %(agents)s::text[],
    %(owners)s::text[], %(tiers)s::bigint[], %(start_bys)s::float8[], %(not_befores)s::float8[],
    %(cuts)s::boolean[], %(tells)s::boolean[], %(ages)s::float8[]
)

-- name: claim
SELECT * FROM torpor.rings_claim_2(
    %(now)s::float8, %(token)s::text, %(seconds)s::float8, %(wanted)s::text[], %(mask)s::bigint,
    %(cap)s::bigint, %(limit)s::bigint
)

-- Noted first: what is claimed depends on it.
-- name: note_and_claim
SELECT * FROM ($note) noted LEFT JOIN LATERAL (
    SELECT * FROM torpor.rings_claim_2(
        %(now)s::float8, %(token)s::text, %(seconds)s::float8, %(wanted)s::text[], %(mask)s::bigint,
        %(cap)s::bigint, %(limit)s::bigint + 0 * coalesce(cardinality(noted.back_tiers), 0)
    )
) claimed ON true

-- name: extend
SELECT * FROM torpor.rings_extend_2(
    %(now)s::float8, %(seconds)s::float8, %(threads)s::text[], %(tokens)s::text[]
)

-- name: look
SELECT torpor.rings_moment_2(%(now)s::float8),
    EXISTS (SELECT 1 FROM torpor.rings WHERE ready),
    (SELECT min(ready_at) FROM torpor.rings WHERE NOT ready)

-- name: size
SELECT count(*) FROM torpor.rings

-- name: next_at
SELECT min(ready_at) FROM torpor.rings
WHERE %(wanted)s::text[] IS NULL OR agent = ANY (%(wanted)s::text[])

-- name: listen
LISTEN torpor_rings

-- name: knock
SELECT pg_notify('torpor_rings', %(word)s::text)

-- name: listen_live
LISTEN torpor_live

-- name: tell
SELECT pg_notify('torpor_live', word) FROM unnest(%(words)s::text[]) WITH ORDINALITY AS told (word, place)
ORDER BY place
