"""botocore clients without retries, and with time-outs that fit a deadline.

ddbload repeats calls itself. botocore is used directly because boto3 takes longer to import.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ddbload import __version__
from ddbload.aws import failures
from ddbload.errors import AwsConfiguration, did_you_mean

if TYPE_CHECKING:
    from botocore.session import Session
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_stepfunctions import SFNClient

CONNECT_SECONDS = 5
ADVISORY_SECONDS = 3
"""Time-outs of calls for information that a run can do without."""
READ_SECONDS = 15
"""Time-out of a read. All reads of a response together have as long, and a second more for each
`LEAST_BYTES_PER_SECOND` that arrive. A step's deadline leaves at least this much time."""


ALLOW_HTTP = "DDBLOAD_ALLOW_HTTP"
"""Environment variable: 1 to send requests over http to any host."""
# The machine that a container runs on, by the name that Docker gives it.
_OWN_NAMES = ("localhost", "host.docker.internal")
# RFC 6761: this machine; and names that no resolver finds, except for tests.
_RESERVED = (".localhost", ".test", ".example", ".invalid")


def _may_be_plain(host: str) -> bool:
    """Tell whether a host is this machine, as emulators are, or any host is allowed.

    Names of a local network are not enough: anybody in it may answer for them.
    """
    if os.environ.get(ALLOW_HTTP) == "1":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.removesuffix(".").lower()
        return name in _OWN_NAMES or name.endswith(_RESERVED)
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


@dataclass(frozen=True, slots=True)
class AwsSettings:
    """AWS options of the command line; botocore's configuration chain supplies the rest."""

    profile: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    requester_pays: bool = False
    """True if the caller agrees to pay for requests to buckets whose requester pays."""


class BotoClients:
    """botocore clients of one process, made at first use and safe for threads."""

    def __init__(self, settings: AwsSettings | None = None, connections: int = 16) -> None:
        self._settings = settings or AwsSettings()
        self._connections = connections
        self._dynamodb: DynamoDBClient | None = None
        self._s3: S3Client | None = None
        self._events: Any = None
        self._stepfunctions: SFNClient | None = None
        self._cloudformation: CloudFormationClient | None = None
        self._session: Session | None = None
        # Parameters of all requests to a bucket, by bucket.
        self._terms: dict[str, dict[str, str]] = {}

    def set_terms(
        self, bucket: str, *, owner: str | None = None, requester_pays: bool = False
    ) -> None:
        """Set what all requests to a bucket say: who must own it, and that ddbload pays.

        S3 refuses a request whose bucket belongs to another account than `owner`. So rows cannot
        come from, or the ledger go to, a bucket that somebody else made under a deleted one's name.
        """
        terms = {"ExpectedBucketOwner": owner} if owner else {}
        if requester_pays:
            terms["RequestPayer"] = "requester"
        self._terms[bucket] = {**self._terms.get(bucket, {}), **terms}

    def terms(self, bucket: str) -> dict[str, str]:
        """Return the parameters of botocore that all requests to a bucket have."""
        pays = {"RequestPayer": "requester"} if self._settings.requester_pays else {}
        return {**pays, **self._terms.get(bucket, {})}

    @property
    def dynamodb(self) -> DynamoDBClient:
        """Client of DynamoDB that checks responses' checksums. Raises `AwsConfiguration`."""
        if self._dynamodb is None:
            client: DynamoDBClient = self._make("dynamodb")
            client.meta.events.register("before-parse.dynamodb", failures.check_crc32)
            self._dynamodb = client
        return self._dynamodb

    @property
    def s3(self) -> S3Client:
        """Client of S3. Raises `AwsConfiguration`."""
        if self._s3 is None:
            client: S3Client = self._make("s3")
            add_terms: Any = self._add_terms
            client.meta.events.register("provide-client-params.s3", add_terms)
            self._s3 = client
        return self._s3

    def _add_terms(self, params: dict[str, Any], model: Any, **_: object) -> dict[str, Any]:
        """Add a bucket's terms to a request, as a `provide-client-params` handler of botocore."""
        known = model.input_shape.members
        terms = self.terms(str(params.get("Bucket", "")))
        return {**{name: value for name, value in terms.items() if name in known}, **params}

    @property
    def events(self) -> Any:
        """Client of EventBridge. Raises `AwsConfiguration`."""
        if self._events is None:
            self._events = self._make("events")
        return self._events

    @property
    def stepfunctions(self) -> SFNClient:
        """Client of Step Functions. Raises `AwsConfiguration`."""
        if self._stepfunctions is None:
            self._stepfunctions = self._make("stepfunctions")
        return self._stepfunctions

    @property
    def cloudformation(self) -> CloudFormationClient:
        """Client of CloudFormation. Raises `AwsConfiguration`."""
        if self._cloudformation is None:
            self._cloudformation = self._make("cloudformation")
        return self._cloudformation

    def logs(self) -> Any:
        """Client of CloudWatch Logs. Raises `AwsConfiguration`."""
        return self._make("logs")

    def service(self, name: str) -> Any:
        """Make a client of a service that only a few commands use. Raises `AwsConfiguration`."""
        return self._make(name)

    def advisory(self, service: str) -> Any:
        """Make a client that reads information a run can do without, and so waits only briefly.

        Raises `AwsConfiguration`.
        """
        return self._make(service, seconds=ADVISORY_SECONDS)

    def session(self, *, anew: bool = False) -> Session:
        """Return the session that clients share; with `anew`, make one with new credentials."""
        if self._session is None or anew:
            from botocore.session import get_session

            session = get_session()
            if self._settings.profile is not None:
                session.set_config_variable("profile", self._settings.profile)
            self._session = session
        return self._session

    def renew(self) -> None:
        """Load the credentials again for the next client of DynamoDB."""
        self.session(anew=True)
        self._dynamodb = None

    def _make(self, service: Any, *, seconds: int | None = None) -> Any:
        """Make a client. `seconds`: its time-outs, where they are not the usual ones."""
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        from ddbload.aws.bounded_http import bound

        config = Config(
            retries={"total_max_attempts": 1, "mode": "standard"},
            connect_timeout=seconds or CONNECT_SECONDS,
            read_timeout=seconds or READ_SECONDS,
            max_pool_connections=self._connections,
            tcp_keepalive=True,
            # Items were validated before, by stricter rules.
            parameter_validation=service != "dynamodb",
            user_agent_extra=f"ddbload/{__version__}",
        )
        settings = self._settings
        # botocore reads only AWS_DEFAULT_REGION, while the AWS CLI and Lambda use AWS_REGION.
        region = settings.region or os.environ.get("AWS_REGION") or None
        try:
            client: Any = self.session().create_client(
                service, region, config=config, endpoint_url=settings.endpoint_url
            )
            # botocore would report these only with the first request.
            endpoint = urlsplit(client.meta.endpoint_url)
            if endpoint.scheme not in ("http", "https") or endpoint.port == 0:
                raise ValueError(f"Invalid endpoint: {client.meta.endpoint_url}")
        except (BotoCoreError, ValueError) as error:
            raise failures.configuration_error(error) from None
        if endpoint.scheme == "http" and not _may_be_plain(endpoint.hostname or ""):
            raise AwsConfiguration(
                f"AWS settings: the endpoint {endpoint.hostname} of {service} is http, so rows and"
                " session tokens would cross the network readable; write https, or allow it by"
                f" {ALLOW_HTTP}=1"
            )
        self._check_region(client.meta.region_name, endpoint.hostname or "")
        # By its service, so that it comes before handlers that replace the body.
        name = client.meta.service_model.service_id.hyphenize()
        client.meta.events.register(f"before-parse.{name}", failures.check_length)
        bound(client)
        return client

    def _check_region(self, region: str, host: str) -> None:
        """Raise `AwsConfiguration` for a region that AWS cannot have, such as us-east1."""
        if not host.endswith(".amazonaws.com") or region not in host:
            return
        from botocore.exceptions import UnknownRegionError

        session = self.session()
        try:
            session.get_partition_for_region(region)
        except UnknownRegionError:
            near = did_you_mean(region, session.get_available_regions("dynamodb"))
            # Other names may be those of emulators, behind a proxy.
            if near:
                raise AwsConfiguration(
                    f"AWS settings: {region!r} is not a region of AWS{near} (--region, AWS_REGION)"
                ) from None
