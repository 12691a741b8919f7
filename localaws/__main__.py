"""`python -m localaws`."""

import sys

from localaws.command import main

sys.exit(main())
