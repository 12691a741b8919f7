"""Entry point of `python -m localaws`."""

import os
import sys

from localaws.command import main

code = main()
sys.stdout.flush()
sys.stderr.flush()
# Daemon threads still wait for functions, and may crash while the interpreter shuts down.
os._exit(code)
