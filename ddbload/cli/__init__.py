"""Command line: click commands and their output. Loads botocore and rich only when needed."""

import atexit
import gc

# Loading modules makes many reference cycles that live as long as the process. Collecting garbage
# among them, while they load and at exit, takes a third of the start-up time.
gc.set_threshold(200_000)
atexit.register(gc.freeze)

COMPLETE_VARIABLE = "_DDBLOAD_COMPLETE"
"""Environment variable by which a shell's completion script asks for completions."""
