"""Side-by-side measurements. Each prints its seed and machine; none decides a test."""
