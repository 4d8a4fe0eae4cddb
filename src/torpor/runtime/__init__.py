"""What does, in order: slices, dispatch, workers, the sweep, live channel. Imports core and ports only."""
