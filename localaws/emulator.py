"""Start and stop all parts of the emulator in order."""

from __future__ import annotations

import json
import os

from localaws import patches
from localaws.call_observers import add_observer
from localaws.delivery import Delivery
from localaws.dynalite import Dynalite
from localaws.dynamodb_proxy import DynamoDBProxy
from localaws.functions.invoker import Invoker
from localaws.functions.logs import LogShipper
from localaws.functions.memory import MemoryWatch
from localaws.functions.pool import Pools
from localaws.functions.worker import SharedResources
from localaws.iam.guard import Guard
from localaws.iam.policies import policy_documents
from localaws.server import Server
from localaws.settings import ACCOUNT, HOST, Settings


class Emulator:
    """Running servers and functions of the emulator, from construction until `close`.

    Raises DynaliteMissing, WrongMoto, and OSError if the port is taken.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._server = Server(settings.port, watch=settings.watches_calls)
        self._dynalite = Dynalite()
        self._proxy = DynamoDBProxy(self._dynalite.endpoint) if settings.watches_calls else None
        seen = self._proxy or self._dynalite
        self._pools = Pools(
            settings.concurrency,
            SharedResources(
                work_folder=settings.work_folder,
                log_folder=settings.log_folder or settings.work_folder / "logs",
                endpoints={
                    "AWS_ENDPOINT_URL": self._server.endpoint,
                    "AWS_ENDPOINT_URL_DYNAMODB": seen.endpoint,
                },
                memory=MemoryWatch(),
                shipper=LogShipper(),
            ),
        )
        delivery = Delivery(self._server.endpoint)
        invoker = Invoker(self._pools, settings.retry_seconds, delivery)
        patches.apply(invoker, self._server.endpoint, settings.state_retry_seconds)
        _observe_calls(settings)
        self._server.start()

    def announcement(self) -> str:
        """Return endpoints and environment variables for a client, as one line of JSON."""
        return json.dumps(
            {
                "endpoint": self._server.endpoint,
                "dynamodb_endpoint": self._dynalite.endpoint,
                "region": self._settings.region,
                "account": ACCOUNT,
                "environment": self.environment(),
            }
        )

    def environment(self) -> dict[str, str]:
        """Return the variables that direct every AWS client, including `cdk`, to this emulator."""
        proxied = os.environ.get("NO_PROXY", os.environ.get("no_proxy", ""))
        without = ",".join(filter(None, [proxied, HOST]))
        return {
            "AWS_ENDPOINT_URL": self._server.endpoint,
            "AWS_ENDPOINT_URL_DYNAMODB": self._dynalite.endpoint,
            "AWS_REGION": self._settings.region,
            "AWS_DEFAULT_REGION": self._settings.region,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": without,
            "no_proxy": without,
        }

    def close(self) -> None:
        self._server.close()
        self._pools.kill()
        if self._proxy is not None:
            self._proxy.close()
        self._dynalite.close()


def _observe_calls(settings: Settings) -> None:
    """Record or check the roles' calls if the settings request it."""
    if settings.watches_calls:
        guard = Guard(policy_documents, record=settings.record_calls, enforce=settings.enforce_iam)
        add_observer(guard)
