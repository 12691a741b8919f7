"""Tests of row boundaries, blocks, parsing and sniffing."""
