"""Benchmarks: one module per subject, each with a `main()` that prints a table."""
