"""The CDK app as a command that makes each cloud assembly once.

`python repeated_synthesis.py FOLDER` does what `app.py` does, without validation, unless an
earlier call with the same context left its result in the folder. The commands of three pages
synthesize nine times, of four contexts, and each time takes as long as all else that a command
does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path


def synthesize_once(folder: Path) -> None:
    """Write the assembly into the folder that `cdk` names."""
    context = os.environ["CDK_CONTEXT_JSON"]
    made, wanted = folder / hashlib.sha256(context.encode()).hexdigest(), os.environ["CDK_OUTDIR"]
    if not made.exists():
        # Starts CDK's Node process, which neither tests nor a repetition need.
        from tests.infra import unvalidated_app

        unvalidated_app.app.main()
        shutil.copytree(wanted, made)
    else:
        shutil.copytree(made, wanted, dirs_exist_ok=True)


if __name__ == "__main__":
    synthesize_once(Path(sys.argv[1]))
