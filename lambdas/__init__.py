"""Handlers of the deployed functions, one file a state: decode, call, encode."""

import gc

# Fewer garbage collections during imports, whose cyclic objects live as long as the process.
gc.set_threshold(100_000)
