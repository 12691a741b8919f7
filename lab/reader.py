"""Read objects with ddbload's reader in this process, and print times and counts.

    python -m lab.reader BUCKET OBJECTS_FILE CONCURRENCY

The file has one JSON object per line: an S3 object's key, ETag and size, as in a listing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# ddbload imports botocore on first use. Import it here, because the published ways import it before
# their time starts.
import botocore.client
import botocore.httpsession
import botocore.session  # noqa: F401

from ddbload.aws.clients import Clients
from ddbload.errors import DdbloadError
from ddbload.source.s3_requests import pinned_version, read_ranges, whole_object
from lab.published.objects.result import measured, print_result


def main() -> None:
    """Read the objects, and print the result."""
    bucket, path, concurrency = sys.argv[1:]
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    objects = [pinned_version(bucket, **json.loads(line)) for line in lines]
    bodies: dict[str, bytes] = {}
    failures = []
    with measured() as work:
        with measured() as start:
            clients = Clients()
            client, _ = clients.s3, clients.s3_signer(bucket)
        ranges = map(whole_object, objects)
        found = read_ranges(ranges, client, signers=clients.s3_signer, concurrency=int(concurrency))
        try:
            for number, body in enumerate(found):
                key = objects[number]["key"]
                if key in bodies:
                    failures.append(f"{key} was read twice")
                bodies[key] = body
        except DdbloadError as error:
            failures.append(f"{type(error).__name__}: {error}")
    print_result(work, bodies, failures, start_seconds=start.seconds, start_cpu=start.cpu)


if __name__ == "__main__":
    main()
