-- name: there
SELECT to_regclass('torpor.migrations') IS NOT NULL

-- name: last
SELECT coalesce(max(number), 0)::int, coalesce(max(serves), 0)::int FROM torpor.migrations

-- name: begin
SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0

-- name: lock
SELECT pg_advisory_xact_lock(%s)

-- name: ledger
SET LOCAL lock_timeout = '2s';
CREATE SCHEMA IF NOT EXISTS torpor;
CREATE TABLE IF NOT EXISTS torpor.migrations (
    number integer PRIMARY KEY,
    serves integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
)

-- name: note
INSERT INTO torpor.migrations (number, serves) VALUES (%s, %s)
