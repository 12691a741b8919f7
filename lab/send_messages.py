"""Send messages to S3 or SQS with ddbload's HTTP client and many requests in flight.

    python -m lab.send_messages messages.jsonl s3 bucket --concurrency 16

Prints the seconds from the first message to the last answer.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from ddbload.aws.clients import Clients
from ddbload.aws.http_client.connection import Endpoint
from ddbload.aws.http_client.event_loop import HttpLoop, RequestLost
from ddbload.aws.signing.signers import SigningCredentials
from ddbload.aws.signing.sigv4 import RequestSigner, SigningKey

BATCH_HEADERS = {
    "content-type": "application/x-amz-json-1.0",
    "x-amz-target": "AmazonSQS.SendMessageBatch",
}


class Sender(SigningCredentials):
    """Signs and sends the requests of one service, to the endpoint that botocore would use."""

    def __init__(self, service: str, name: str) -> None:
        clients = Clients()
        client, self._name = clients.service(service), name
        url = urlsplit(client.meta.endpoint_url)
        port = url.port or (443 if url.scheme == "https" else 80)
        endpoint = Endpoint(url.scheme, url.hostname or "", port, client.meta.region_name)
        super().__init__(clients.session, endpoint, f"signing requests to {service}")
        self._url = client.get_queue_url(QueueName=name)["QueueUrl"] if service == "sqs" else ""
        self._sqs = RequestSigner(
            service="sqs", region=endpoint.region, host=endpoint.authority, headers=BATCH_HEADERS
        )

    def put(self, message: str) -> bytes:
        """Return the signed request that stores a message as an object."""
        host, region, body = self.endpoint.authority, self.endpoint.region, message.encode()
        key = SigningKey(self._credentials, int(self._now()), region, "s3")
        path = f"/{self._name}/message_{json.loads(message)['message_id']}.json"
        digest, names = hashlib.sha256(body).hexdigest(), "host;x-amz-content-sha256;x-amz-date"
        signed = [f"host:{host}", f"x-amz-content-sha256:{digest}", f"x-amz-date:{key.stamp}"]
        canonical = "\n".join(["PUT", path, "", *signed, "", names, digest])
        signature = key.signature(hashlib.sha256(canonical.encode()).hexdigest())
        scope = f"Credential={key.credential}, SignedHeaders={names}, Signature={signature}"
        head = [*signed, f"authorization: AWS4-HMAC-SHA256 {scope}", f"content-length: {len(body)}"]
        return "\r\n".join([f"PUT {path} HTTP/1.1", *head, "", ""]).encode() + body

    def batch(self, messages: Sequence[str]) -> bytes:
        """Return the signed request that sends up to ten messages to a queue."""
        entries = [{"Id": str(at), "MessageBody": each} for at, each in enumerate(messages)]
        body = json.dumps({"QueueUrl": self._url, "Entries": entries}).encode()
        return self._sqs.post(body, self._credentials, self._now())

    def send(self, requests: Sequence[bytes], concurrency: int) -> None:
        """Send requests, up to `concurrency` at a time. Exits if one of them fails."""
        loop, waiting, done = HttpLoop(self.endpoint, concurrency, self.tls()), iter(requests), 0
        while done < len(requests):
            while loop.free() and (request := next(waiting, None)) is not None:
                loop.send(None, request)
            for _, outcome in loop.wait(1.0):
                if isinstance(outcome, RequestLost) or outcome.status != 200:
                    raise SystemExit(f"a request failed: {outcome}")
                done += 1
        loop.close()


def main() -> None:
    """Send all messages of the file."""
    parser = argparse.ArgumentParser(description="Send the messages of a file to S3 or SQS.")
    parser.add_argument("file", type=Path)
    parser.add_argument("service", choices=("s3", "sqs"))
    parser.add_argument("name", help="bucket or queue")
    parser.add_argument("--concurrency", type=int, default=16)
    options = parser.parse_args()
    messages = options.file.read_text(encoding="utf-8").splitlines()
    sender = Sender(options.service, options.name)
    began = time.perf_counter()
    if options.service == "s3":
        requests = [sender.put(message) for message in messages]
    else:
        starts = range(0, len(messages), 10)
        requests = [sender.batch(messages[start : start + 10]) for start in starts]
    sender.send(requests, options.concurrency)
    print(json.dumps({"seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
