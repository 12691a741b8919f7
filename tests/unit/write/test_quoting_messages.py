"""Messages of a server that quotes the request are not repeated."""

from __future__ import annotations

import pytest

from ddbload.aws.failures import AwsFailure, FailureKind
from ddbload.write.requests import answer_for_failure
from ddbload.write.scheduler.messages import Fatal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("User: arn:aws:sts::1:x is not authorized to perform: dynamodb:BatchWriteItem", True),
        ('what is {"PutRequest": {"Item": {"id": {"S": "canary"}}}}?', False),
        ("no permission for [canary]", False),
    ],
)
def test_message_with_json_in_it_is_dropped(text, shown):
    failure = AwsFailure(FailureKind.FATAL, "AccessDeniedException", text, status=400)
    answer = answer_for_failure(failure, "birds")
    assert isinstance(answer, Fatal)
    assert (text in answer.error.message) is shown
    assert "canary" not in answer.error.message
    assert "AccessDeniedException" in answer.error.message
