"""Oracles: slow, plain implementations that share no code with ddbload."""
