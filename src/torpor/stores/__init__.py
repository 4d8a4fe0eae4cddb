"""Where threads are rows: one module or package for each kind of store."""
