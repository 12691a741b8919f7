"""Benchmarks that measure ddbload beside other tools. Each prints its seed and machine."""
