"""Names beside a name, in S3 and on a disk alike."""

from __future__ import annotations

import posixpath

S3_SCHEME = "s3://"


def relative_to(place: str, name: str) -> str:
    """What `name` is, where the file `place` names it: in the same folder, if nothing else."""
    if name.startswith("/"):
        return name
    folder = place[: place.rfind("/") + 1]
    if not folder.startswith(S3_SCHEME):
        return posixpath.normpath(folder + name)
    # Not normal forms: S3 takes a key as it is, and `a//b` for another than `a/b`.
    return folder + name
