"""botocore clients that send nothing, and check parameters and answers by the service models."""

from __future__ import annotations

from botocore.session import get_session
from botocore.stub import Stubber


class Clients:
    """Clients with stubs that check parameters and answers by botocore's service models."""

    def __init__(self, dynamodb=None):
        self.dynamodb = dynamodb
        self.stubs = {}

    def stub(self, service):
        client = get_session().create_client(
            service, "eu-west-1", aws_access_key_id="a", aws_secret_access_key="b"
        )
        self.stubs[service] = client
        return Stubber(client)

    def advisory(self, service):
        return self.stubs[service]
