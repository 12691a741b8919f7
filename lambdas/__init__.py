"""The functions of the deployed pipeline, one file a state: decode, call, encode."""

import gc

# As for the command line: modules are full of cycles that live as long as the process, and are not
# worth being looked through, again and again, while it starts.
gc.set_threshold(100_000)
