-- Threads by what they are for, other than the roots that most are.
CREATE INDEX threads_by_purpose ON threads (purpose, thread) WHERE purpose <> 'root';
