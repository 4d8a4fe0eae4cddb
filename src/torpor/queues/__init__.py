"""Doorbells: one module for each kind of queue."""
