from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localaws.iam import policies as module
from localaws.iam.policies import Policies, UnsupportedPolicy, Verdict
from localaws.iam.requests import Call
from tests.iam.policy_oracle import allows

ALLOW = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/runs/*/run.json"}


def policies(*statements: dict, **more) -> Policies:
    return Policies({"p": json.dumps({"Version": "2012-10-17", "Statement": statements, **more})})


def judge(statement: dict, action: str, resource: str) -> Verdict:
    return policies(ALLOW | statement).judge(Call(action, resource))


@pytest.mark.parametrize(
    ("pattern", "key", "allowed"),
    [
        ("b/runs/*/run.json", "b/runs/1/run.json", True),
        ("b/runs/*/run.json", "b/runs//run.json", True),
        # `*` matches slashes too, so it does not stop at a folder.
        ("b/runs/*/run.json", "b/runs/1/chunks/run.json", True),
        ("b/runs/*/run.json", "b/runs/1/run_json", False),
        ("b/runs/*/run.json", "b/runs/1/run.jso", False),
        ("b/runs/*/run.json", "b/runs/1/run.json.bak", False),
        ("b/runs/*/run.json", "b/runs/1/run.json\n", False),
        ("b/runs/*/run.json", "b/runs/1\n2/run.json", True),
        ("b/runs/*/run.json", "b/runs/1/Run.json", False),
        ("b/runs/*/run.json", "bb/runs/1/run.json", False),
        ("b/runs/*/run.json", "b/x/runs/1/run.json", False),
        ("b*", "b", True),
        ("b*", "bucket-of-somebody-else/secret", True),
        ("b/*", "b", False),
        ("b/*", "b/", True),
        ("b/*", "b2/x", False),
        ("b", "b/x", False),
        ("my.bucket/*", "my-bucket/x", False),
        ("b/a?c", "b/abc", True),
        ("b/a?c", "b/ac", False),
        ("b/a?c", "b/c", False),
        ("b/a+c", "b/a+c", True),
        ("b/a+c", "b/aac", False),
        ("b/(a|c)", "b/a", False),
        ("b/[ac]", "b/a", False),
        ("b/[ac]", "b/[ac]", True),
        ("b/a$", "b/a", False),
        ("b/\\w", "b/a", False),
        ("b/größe*", "b/größer", True),
        ("*", "b/x", True),
    ],
)
def test_resource_pattern_matches_as_in_iam(pattern, key, allowed):
    verdict = judge({"Resource": f"arn:aws:s3:::{pattern}"}, "s3:GetObject", f"arn:aws:s3:::{key}")
    assert (verdict is Verdict.ALLOWED) == allowed


def test_deny_overrides_allow_in_any_policy():
    everything = {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}
    nothing_there = {
        "Statement": [{"Effect": "Deny", "Action": "s3:*", "Resource": "arn:aws:s3:::b/k*"}]
    }
    for documents in (
        {"a": everything, "d": nothing_there},
        {"d": nothing_there, "a": everything},
        {"both": {"Statement": [everything["Statement"], *nothing_there["Statement"]]}},
    ):
        both = Policies(documents)
        assert both.judge(Call("s3:PutObject", "arn:aws:s3:::b/k1")) is Verdict.DENIED
        assert both.judge(Call("s3:PutObject", "arn:aws:s3:::b/l")) is Verdict.ALLOWED
        assert both.judge(Call("sqs:SendMessage", "arn:aws:s3:::b/k1")) is Verdict.ALLOWED


@pytest.mark.parametrize(
    "more",
    [
        {"NotResource": "arn:aws:s3:::b/secret"},
        {"Principal": "*"},
        {"Principal": {"AWS": "arn:aws:iam::1:root"}},
        {"NotPrincipal": {"AWS": "arn:aws:iam::1:root"}},
        {"Effect": "allow"},
        {"NotAction": "s3:PutObject"},
        {"Action": []},
        {"Action": "s3"},
        {"Action": {"s3": "GetObject"}},
        {"Resource": []},
        {"Resource": "b/k"},
        {"Resource": "arn:aws:s3:b"},
        {"Resource": "arn:aws:s3:::b/${aws:username}/*"},
        {"Resource": "arn:aws:dynamodb:*:1:table/t"},
        {"Resource": {"Fn::GetAtt": ["B", "Arn"]}},
        {"Condition": {"StringNotEquals": {"s3:prefix": "runs/"}}},
        {"Condition": {"Bool": {"aws:SecureTransport": "maybe"}}},
        {"Condition": {"Bool": {"aws:SecureTransport": ["true", "maybe"]}}},
        {"Condition": {"Bool": {"aws:SecureTransport": "true"}, "Null": {"s3:prefix": "true"}}},
        {"Unheard": "of"},
    ],
)
def test_statement_is_refused_if_unsupported(more):
    with pytest.raises(UnsupportedPolicy, match="p, statement 1"):
        policies(ALLOW | more)


def test_statement_needs_all_its_conditions(monkeypatch):
    known = {("A", "k", "v"): False, ("B", "k", "v"): True, ("B", "l", "v"): True}
    monkeypatch.setattr(module, "CONDITIONS", known)
    call = Call("s3:GetObject", "arn:aws:s3:::b/runs/1/run.json")
    no, yes = {"A": {"k": "v"}}, {"B": {"k": "v", "l": "v"}}
    for condition, allowed in ((yes, True), (no | yes, False), (yes | no, False)):
        assert policies(ALLOW | {"Condition": condition}).allow(call) == allowed


PUT = Call(
    "events:PutEvents",
    "arn:aws:events:eu-west-1:1:event-bus/default",
    {"events:source": "mine", "events:detail-type": "mine.done"},
)


@pytest.mark.parametrize(
    ("condition", "allowed"),
    [
        ({"StringEquals": {"events:source": "mine"}}, True),
        ({"StringEquals": {"events:Source": ["other", "mine"]}}, True),
        ({"StringEquals": {"events:source": "other"}}, False),
        ({"StringEquals": {"events:source": "m*"}}, False),
        ({"StringLike": {"events:detail-type": "mine.*"}}, True),
        ({"StringLike": {"events:detail-type": "mine?"}}, False),
        ({"StringEquals": {"events:source": "mine", "events:detail-type": "x"}}, False),
        # A key that the request does not have.
        ({"StringEquals": {"kms:ViaService": "s3.eu-west-1.amazonaws.com"}}, False),
        (
            {"StringEquals": {"events:source": "mine"}, "Bool": {"aws:SecureTransport": "true"}},
            True,
        ),
    ],
)
def test_conditions_are_compared_with_the_request(condition, allowed):
    statement = {
        "Effect": "Allow",
        "Action": PUT.action,
        "Resource": PUT.resource,
        "Condition": condition,
    }
    assert policies(statement).allow(PUT) == allowed
    other = ALLOW | {"Action": "s3:PutObject"}
    assert policies(statement, other).allow(PUT) == allowed


def test_denial_with_a_condition_on_the_request_is_refused():
    condition = {"StringEquals": {"events:source": "mine"}}
    with pytest.raises(UnsupportedPolicy, match="denies"):
        policies(ALLOW | {"Effect": "Deny", "Condition": condition})


_LETTERS = st.sampled_from("ab.*?/:")
_ARNS = st.text(_LETTERS, max_size=6).map(lambda text: f"arn:aws:s3:::{text}")
_ACTIONS = st.text(st.sampled_from("aA.*?"), min_size=1, max_size=4).map(lambda text: f"s3:{text}")
_STATEMENTS = st.builds(
    lambda effect, element, actions, resources: {
        "Effect": effect,
        element: actions,
        "Resource": resources,
    },
    st.sampled_from(["Allow", "Allow", "Deny"]),
    st.sampled_from(["Action", "Action", "NotAction"]),
    st.lists(_ACTIONS, min_size=1, max_size=2),
    st.lists(_ARNS | st.just("*"), min_size=1, max_size=2),
)


@given(
    statements=st.lists(_STATEMENTS, max_size=3),
    action=_ACTIONS,
    resource=_ARNS,
)
def test_policies_agree_with_the_oracle(statements, action, resource):
    allowed = policies(*statements).allow(Call(action, resource))
    assert allowed == allows(statements, action, resource)
