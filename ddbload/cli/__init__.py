"""The command line: click commands, and what they draw. botocore and rich load when needed."""

import atexit
import gc

# Modules and their classes are full of cycles that live as long as the process. To look for others
# among them, while they load and again when all is over, takes a third of the start-up.
gc.set_threshold(100_000)
atexit.register(gc.freeze)
