"""What does, in order: slices, dispatch, workers, the sweep, and the live channel. Imports core and ports only."""
