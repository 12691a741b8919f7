"""BatchWriteItem through a boto3 client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ddbload.aws_http.failures import meaning
from ddbload.write.answers import AnswerReader
from ddbload.write.driver import PutItem
from ddbload.write.steps import Answer, Unsure

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class BatchWriter:
    """Puts items into one table. Thread-safe, as its client is."""

    def __init__(self, client: DynamoDBClient, table: str, key_names: Sequence[str]) -> None:
        self._client = client
        self._table = table
        self._answers = AnswerReader(table, key_names)

    def send(self, items: Sequence[PutItem]) -> Answer:
        """Put up to 25 items of different keys."""
        requests: Any = [{"PutRequest": {"Item": item}} for item in items]
        try:
            response: Any = self._client.batch_write_item(
                RequestItems={self._table: requests}, ReturnConsumedCapacity="TOTAL"
            )
        except (AttributeError, LookupError, TypeError, ValueError):
            # So botocore fails on a body that is JSON, and not an object, or not even text.
            return Unsure("an answer that is not DynamoDB's")
        except Exception as error:
            meant = meaning(error)
            if meant is None:
                raise
            return self._answers.failed(meant)
        return self._answers.accepted(response, lambda: items)
