-- name: now
coalesce(%(now)s::float8, extract(epoch FROM statement_timestamp())::float8)

-- name: put_blob
INSERT INTO torpor.blobs (thread, hash, at, body) VALUES (%(thread)s, %(hash)s, $now, %(body)s)
ON CONFLICT (thread, hash) DO NOTHING

-- name: blob
SELECT substring(body FROM %(from)s::integer) FROM torpor.blobs WHERE thread = %(thread)s AND hash = %(hash)s

-- name: blob_part
SELECT substring(body FROM %(from)s::integer FOR %(size)s::integer)
FROM torpor.blobs WHERE thread = %(thread)s AND hash = %(hash)s

-- name: put
INSERT INTO torpor.small (space, key, value, at) VALUES (%(space)s, %(key)s, %(value)s, $now)
ON CONFLICT (space, key) DO UPDATE SET value = excluded.value, at = excluded.at

-- name: put_new
WITH added AS (
    INSERT INTO torpor.small (space, key, value, at) VALUES (%(space)s, %(key)s, %(value)s, $now)
    ON CONFLICT (space, key) DO NOTHING RETURNING value
)
SELECT value FROM added
UNION ALL
SELECT value FROM torpor.small WHERE space = %(space)s AND key = %(key)s
LIMIT 1

-- name: get
SELECT value FROM torpor.small WHERE space = %(space)s AND key = %(key)s

-- name: entries
SELECT key, value FROM torpor.small WHERE space = %(space)s ORDER BY key
