"""What decides: plain values and pure functions. No await, clock, randomness, environment or logging."""
