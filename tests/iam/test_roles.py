from __future__ import annotations

import json

import pytest
from moto.iam.models import iam_backends

from localaws.iam.policies import Policies, UnsupportedPolicy, policy_documents
from localaws.iam.requests import Call

ACCOUNT = "210987654321"
"""Account that no other test uses: moto keeps its backends until the process ends."""
READ = Call("s3:GetObject", "arn:aws:s3:::b/k")
WRITE = Call("s3:PutObject", "arn:aws:s3:::b/k")


def document(action):
    statement = {"Effect": "Allow", "Action": action, "Resource": "arn:aws:s3:::b/*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@pytest.fixture
def backend():
    backend = iam_backends[ACCOUNT]["aws"]
    yield backend
    backend.reset()


def make_role(backend, boundary=None):
    return backend.create_role("worker", "{}", "/deep/", boundary, "", {}, None)


def test_policy_documents_include_inline_and_attached_policies(backend):
    role = make_role(backend)
    assert role.arn == f"arn:aws:iam::{ACCOUNT}:role/deep/worker"
    assert policy_documents(role.arn) == {}
    backend.put_role_policy("worker", "inline", document("s3:GetObject"))
    policies = Policies(policy_documents(role.arn))
    assert (policies.allow(READ), policies.allow(WRITE)) == (True, False)
    attached = backend.create_policy("", "/", document("s3:PutObject"), "attached", {})
    backend.attach_role_policy(attached.arn, "worker")
    policies = Policies(policy_documents(role.arn))
    assert (policies.allow(READ), policies.allow(WRITE)) == (True, True)


def test_policy_documents_use_the_default_version(backend):
    role = make_role(backend)
    attached = backend.create_policy("", "/", document("s3:GetObject"), "attached", {})
    backend.attach_role_policy(attached.arn, "worker")
    backend.create_policy_version(attached.arn, document("s3:PutObject"), "true")
    policies = Policies(policy_documents(role.arn))
    assert (policies.allow(READ), policies.allow(WRITE)) == (False, True)


def test_policy_documents_are_empty_for_a_missing_role(backend):
    assert policy_documents(f"arn:aws:iam::{ACCOUNT}:role/nobody") == {}


def test_role_is_refused_with_a_permission_boundary(backend):
    boundary = backend.create_policy("", "/", document("s3:GetObject"), "boundary", {})
    role = make_role(backend, boundary.arn)
    with pytest.raises(UnsupportedPolicy, match="boundar"):
        policy_documents(role.arn)
