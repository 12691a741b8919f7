"""Benchmarks that compare ddbload with other tools. Each prints its seed and machine."""
