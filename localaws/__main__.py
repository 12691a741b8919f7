"""`python -m localaws`."""

import os
import sys

from localaws.command import main

code = main()
sys.stdout.flush()
sys.stderr.flush()
# Threads that wait for functions are still there, and Python would trip over them at its end.
os._exit(code)
