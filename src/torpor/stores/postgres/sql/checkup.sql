-- name: server
SELECT
    current_setting('server_version'),
    extract(epoch FROM statement_timestamp())::float8,
    current_setting('fsync'),
    current_setting('synchronous_commit'),
    current_setting('statement_timeout'),
    current_setting('lock_timeout'),
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
    current_setting('max_connections')::int,
    current_setting('autovacuum'),
    pg_database_size(current_database())
