"""Read objects with asyncio: one task per object, all created at once, and one aiobotocore client.

    python -m lab.published.objects.tasks BUCKET KEYS_FILE CONNECTIONS

The client's pool limits the number of requests in flight; aiobotocore's default is 10. Each task
signs its request before it waits for a connection.
"""

from __future__ import annotations

import asyncio
import sys

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import ClientError

from lab.published.objects.result import measured, print_result, read_keys


async def read_objects(
    bucket: str, keys: list[str], connections: int
) -> list[bytes | BaseException]:
    """Read all objects; return a body or an exception for each."""
    config = AioConfig(max_pool_connections=connections)
    async with get_session().create_client("s3", config=config) as client:

        async def read(key: str) -> bytes:
            answer = await client.get_object(Bucket=bucket, Key=key)
            async with answer["Body"] as stream:
                body: bytes = await stream.read()
                return body

        # Collect exceptions to count them. Otherwise the first one would be raised, and no body
        # returned.
        return await asyncio.gather(*map(read, keys), return_exceptions=True)


def main() -> None:
    """Read the objects, and print the result."""
    bucket, path, connections = sys.argv[1:]
    keys = read_keys(path)
    with measured() as work:
        found = asyncio.run(read_objects(bucket, keys, int(connections)))
    bodies: dict[str, bytes] = {}
    failures = []
    for key, body in zip(keys, found, strict=True):
        if isinstance(body, bytes):
            bodies[key] = body
        elif isinstance(body, ClientError):
            failures.append(str(body))
        else:
            raise body
    print_result(work, bodies, failures)


if __name__ == "__main__":
    main()
