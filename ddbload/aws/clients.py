"""AWS clients of one process: botocore's, and signers for the requests ddbload sends itself."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ddbload.records import Record

if TYPE_CHECKING:
    from botocore.session import Session
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_stepfunctions import SFNClient

    from ddbload.aws.signing.signers import DynamoDBSigner, S3Signer

ADVISORY_SECONDS = 3
"""Time-outs of calls for information that a run can do without."""


class AwsSettings(Record):
    """AWS options of the command line; botocore's configuration chain supplies the rest."""

    profile: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    requester_pays: bool = False
    """True if the caller agrees to pay for requests to buckets whose requester pays."""


def _client(service: str) -> Any:
    """Make an attribute of `Clients` that holds the client of a service."""
    return cached_property(lambda clients: clients.service(service))


class Clients:
    """botocore clients and request signers, made at first use and safe for threads.

    botocore and the signers are imported at first use, too: many commands and steps start without
    them. Making a client or signer raises `AwsConfiguration`.
    """

    def __init__(self, settings: AwsSettings | None = None, connections: int = 16) -> None:
        self._settings = settings or AwsSettings()
        self._connections = connections
        self._session: Session | None = None
        self._located: set[str] = set()
        # Parameters of all requests to a bucket, by bucket.
        self._terms: dict[str, dict[str, str]] = {}

    def set_terms(
        self, bucket: str, *, owner: str | None = None, requester_pays: bool = False
    ) -> None:
        """Set what all requests to a bucket say: who must own it, and that ddbload pays.

        S3 refuses a request whose bucket belongs to another account than `owner`. So rows cannot
        come from, or the ledger go to, a bucket that another account made after one was deleted.
        """
        terms = {"ExpectedBucketOwner": owner} if owner else {}
        if requester_pays:
            terms["RequestPayer"] = "requester"
        self._terms[bucket] = {**self._terms.get(bucket, {}), **terms}

    def terms(self, bucket: str) -> dict[str, str]:
        """Return the parameters of botocore that all requests to a bucket have."""
        pays = {"RequestPayer": "requester"} if self._settings.requester_pays else {}
        return {**pays, **self._terms.get(bucket, {})}

    dynamodb: cached_property[DynamoDBClient] = _client("dynamodb")
    """botocore client of DynamoDB that checks responses' checksums."""

    @cached_property
    def dynamodb_signer(self) -> DynamoDBSigner:
        """Signer of requests to DynamoDB."""
        from ddbload.aws.signing.signers import DynamoDBSigner

        return DynamoDBSigner(self.dynamodb, self.session)

    @cached_property
    def s3(self) -> S3Client:
        """botocore client of S3."""
        client: S3Client = self.service("s3")
        add_terms: Any = self._add_terms
        client.meta.events.register("provide-client-params.s3", add_terms)
        return client

    def _add_terms(self, params: dict[str, Any], model: Any, **_: object) -> dict[str, Any]:
        """Add a bucket's terms to a request, as a `provide-client-params` handler of botocore."""
        known = model.input_shape.members
        terms = self.terms(str(params.get("Bucket", "")))
        return {**{name: value for name, value in terms.items() if name in known}, **params}

    def s3_signer(self, bucket: str) -> S3Signer | None:
        """Make a signer of requests to a bucket; None where only botocore can reach it."""
        from ddbload.aws.signing.signers import s3_signer_for

        self._locate(bucket)
        return s3_signer_for(self.s3, self.session, bucket, self.terms(bucket))

    def _locate(self, bucket: str) -> None:
        """Have botocore find the region of a bucket of AWS, which may be another than the client's.

        botocore follows S3's redirect and remembers the region; ddbload's HTTP client does not.
        """
        if bucket in self._located or ".amazonaws.com" not in self.s3.meta.endpoint_url:
            return
        self._located.add(bucket)
        # The region is known even where this request is refused. Another error ends the next one.
        with suppress(Exception):
            self.s3.head_bucket(Bucket=bucket)

    events: cached_property[Any] = _client("events")
    """botocore client of EventBridge."""
    stepfunctions: cached_property[SFNClient] = _client("stepfunctions")
    """botocore client of Step Functions."""
    cloudformation: cached_property[CloudFormationClient] = _client("cloudformation")
    """botocore client of CloudFormation."""

    def advisory(self, service: str) -> Any:
        """Make a client that reads information a run can do without, and so waits only briefly."""
        return self.service(service, seconds=ADVISORY_SECONDS)

    def session(self, *, anew: bool = False) -> Session:
        """Return the session that clients share; with `anew`, make one with new credentials."""
        if self._session is None or anew:
            from botocore.session import get_session

            session = get_session()
            if self._settings.profile is not None:
                session.set_config_variable("profile", self._settings.profile)
            # Another thread must not find it without its profile.
            self._session = session
        return self._session

    def renew(self) -> None:
        """Load the credentials again for the next client of DynamoDB."""
        self.session(anew=True)
        self.__dict__.pop("dynamodb", None)

    def service(self, service: str, *, seconds: int | None = None) -> Any:
        """Make a client. `seconds`: its time-outs, where they are not the usual ones."""
        from ddbload.aws.boto_clients import make_client

        settings = self._settings
        return make_client(
            self.session(),
            service,
            region=settings.region,
            endpoint_url=settings.endpoint_url,
            connections=self._connections,
            seconds=seconds,
        )
