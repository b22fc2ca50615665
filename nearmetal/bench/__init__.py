"""Benchmarks: what was measured, where it ran, and what may be concluded."""
