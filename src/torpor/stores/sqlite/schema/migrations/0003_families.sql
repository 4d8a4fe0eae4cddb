-- Threads below others, by parent and by root. Roots themselves are not in it.
CREATE INDEX threads_of_parent ON threads (parent, thread) WHERE parent <> '';
CREATE INDEX threads_of_root ON threads (root, thread) WHERE parent <> '';
