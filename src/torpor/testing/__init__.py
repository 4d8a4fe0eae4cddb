"""What proves a backend, shipped so that others can prove theirs: clock, faults and contract suites."""
