"""Dead letters are moved back without loss, whatever happens in between."""

from __future__ import annotations

import json
from typing import Any

import pytest
import urllib3  # noqa: F401 - its import opens a socket, which is forbidden within tests here

from ddbload.aws.retry import RetryPolicy
from ddbload.errors import AccessDenied, ServiceUnavailable
from ddbload.runs.replay import MOST_SHOWN, DeadLetters, read_dead_letter
from tests.fakes.sqs import FakeSqs
from tests.fakes.stepfunctions import client_error

DEAD, UPLOADS = "https://queue/dead", "https://queue/uploads"


def event(key: str = "in/a.csv") -> str:
    return json.dumps(
        {"detail": {"bucket": {"name": "inbox"}, "object": {"key": key, "etag": "e"}}}
    )


@pytest.fixture
def sqs() -> FakeSqs:
    return FakeSqs()


def letters(sqs: FakeSqs) -> DeadLetters:
    policy = RetryPolicy(sleep=lambda _: None)
    return DeadLetters(sqs, DEAD, UPLOADS, retry_policy=policy)


def test_replay_moves_all_messages(sqs):
    sent = [event(f"in/{n}.csv") for n in range(57)]
    for body in sent:
        sqs.put(DEAD, body)
    counts: list[int] = []
    done = letters(sqs).replay(counts.append)
    assert (done.moved, done.left, done.hidden) == (57, 0, 0)
    assert sum(counts) == 57
    assert sorted(sqs.bodies(UPLOADS)) == sorted(sent)
    assert sqs.bodies(DEAD) == []


class Killed(Exception):
    """The process ends."""


@pytest.mark.parametrize("at", range(1, 21))
def test_replay_killed_at_any_request_loses_nothing(sqs, at):
    """The worst that may happen is a second copy, which starts no second run."""
    sent = {event(f"in/{n}.csv") for n in range(35)}
    for body in sent:
        sqs.put(DEAD, body)

    def kill(_: str) -> None:
        if len(sqs.calls) >= at:
            raise Killed

    sqs.before = kill
    with pytest.raises(Killed):
        letters(sqs).replay()
    assert {*sqs.bodies(DEAD), *sqs.bodies(UPLOADS)} == sent
    sqs.before = lambda _: None
    held = len(sqs.hidden & set(sqs.queues[DEAD]))
    assert letters(sqs).replay().hidden == held
    sqs.show_all()
    letters(sqs).replay()
    assert (sqs.bodies(DEAD), set(sqs.bodies(UPLOADS))) == ([], sent)


def test_message_that_is_not_an_upload_stays(sqs):
    for body in ("{", "[]", '{"detail": 1}', '{"requestPayload": null}', event()):
        sqs.put(DEAD, body)
    done = letters(sqs).replay()
    assert (done.moved, done.left) == (1, 4)
    assert sqs.bodies(UPLOADS) == [event()]
    assert len(sqs.bodies(DEAD)) == 4


def test_replay_ends_although_what_stays_comes_again(sqs):
    sqs.put(DEAD, "{")
    sqs.before = lambda _: sqs.show_all()
    assert letters(sqs).replay().left == 1


def test_failed_entry_keeps_its_whole_batch(sqs):
    sqs.put(DEAD, event())
    sqs.send_message_batch = lambda **_: {"Failed": [{"Id": "0", "Code": "InternalError"}]}  # type: ignore[method-assign]
    with pytest.raises(ServiceUnavailable, match="InternalError: 1 of 1 messages failed"):
        letters(sqs).replay()
    assert sqs.bodies(DEAD) == [event()]


def test_missing_permission_has_its_name(sqs):
    def refuse(operation: str) -> None:
        if operation == "send":
            raise client_error("AccessDenied", "not authorized to perform: sqs:sendmessage", 403)

    sqs.put(DEAD, event())
    sqs.before = refuse
    with pytest.raises(AccessDenied, match=r"upload queue.*sqs:sendmessage"):
        letters(sqs).replay()
    assert sqs.bodies(DEAD) == [event()]


def test_show_leaves_all_in_the_queue(sqs):
    for number in range(25):
        sqs.put(DEAD, event(f"in/{number}.csv"))
    shown = letters(sqs).show()
    assert [each.upload and each.upload.key for each in shown] == [
        f"in/{number}.csv" for number in range(25)
    ]
    assert not sqs.hidden
    assert len(sqs.bodies(DEAD)) == 25
    assert {"send", "delete"}.isdisjoint(sqs.calls)


def test_show_is_bounded(sqs):
    for number in range(MOST_SHOWN + 25):
        sqs.put(DEAD, event(f"in/{number}.csv"))
    assert len(letters(sqs).show()) == MOST_SHOWN
    assert not sqs.hidden


def received(body: str, **attributes: str) -> Any:
    sqs = FakeSqs()
    sqs.put(DEAD, body, **attributes)
    (message,) = sqs.queues[DEAD].values()
    return read_dead_letter(message)


def test_letter_of_eventbridge_says_why():
    letter = received(event(), ERROR_CODE="NO_PERMISSIONS", ERROR_MESSAGE="not permitted")
    assert letter.error == "NO_PERMISSIONS: not permitted"
    assert letter.to_json() == {
        "message": "m0",
        "bucket": "inbox",
        "key": "in/a.csv",
        "version_id": None,
        "run": letter.upload.run,
        "sent": "2023-11-14T22:13:20+00:00",
        "error": "NO_PERMISSIONS: not permitted",
    }


def test_letter_of_a_stack_without_queue_is_unwrapped():
    """Lambda's record of a failed invocation, which earlier versions kept."""
    body = {
        "requestPayload": json.loads(event()),
        "responsePayload": {"errorType": "ServiceUnavailable", "errorMessage": "throttled"},
    }
    letter = received(json.dumps(body))
    assert json.loads(letter.body) == json.loads(event())
    assert letter.error == "ServiceUnavailable: throttled"


def test_letter_that_was_delivered_too_often_points_to_the_log():
    assert "log of on_upload" in received(event()).error


@pytest.mark.parametrize(
    "body", ["", "[", "null", "5", '{"detail": {"bucket": {}}}', "[" * 100_000]
)
def test_unreadable_letter_has_an_error(body):
    letter = received(body)
    assert letter.upload is None
    assert letter.error.startswith("InvalidPayload: ")
