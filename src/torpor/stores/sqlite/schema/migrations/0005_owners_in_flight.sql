-- Fair shares: what owners run now, and each one's most urgent thread.
CREATE INDEX rings_in_flight ON rings (owner) WHERE token <> '' AND NOT ready AND owner <> '';
CREATE INDEX rings_by_owner ON rings (owner, tier, start_by) WHERE ready;
