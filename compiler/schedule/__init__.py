"""Ordering: dependencies between the decoupled units, and the single instruction stream."""
