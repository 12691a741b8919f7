from __future__ import annotations

import pytest

from tests.iam.deployed_template import Deployed, UnresolvedTemplate, resolve, roles_of

DEPLOYED = Deployed(
    "eu-central-1",
    "123456789012",
    {"Bucket": "work-1", "Role": "role-1"},
    {("Bucket", "Arn"): "arn:aws:s3:::work-1"},
    stack="s",
)
ARN = {"Fn::GetAtt": ["Bucket", "Arn"]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        (7, 7),
        ({"Ref": "Bucket"}, "work-1"),
        ({"Ref": "AWS::Region"}, "eu-central-1"),
        ({"Ref": "AWS::StackName"}, "s"),
        (ARN, "arn:aws:s3:::work-1"),
        ({"Fn::GetAtt": "Bucket.Arn"}, "arn:aws:s3:::work-1"),
        ({"Fn::Join": ["", [ARN, "/runs/*"]]}, "arn:aws:s3:::work-1/runs/*"),
        ({"Fn::Select": [5, {"Fn::Split": [":", ARN]}]}, "work-1"),
        ({"Fn::Sub": "${Bucket.Arn}/${Bucket}/${!x}"}, "arn:aws:s3:::work-1/work-1/${x}"),
        ({"Fn::Sub": ["${a}-${AWS::AccountId}", {"a": ARN}]}, "arn:aws:s3:::work-1-123456789012"),
        ({"a": [{"Ref": "Bucket"}], "b": 1}, {"a": ["work-1"], "b": 1}),
    ],
)
def test_resolve_replaces_intrinsic_functions(value, expected):
    assert resolve(value, DEPLOYED) == expected


@pytest.mark.parametrize(
    "value",
    [
        {"Ref": "Nobody"},
        {"Ref": "AWS::NoValue"},
        {"Fn::GetAtt": ["Bucket", "DomainName"]},
        {"Fn::ImportValue": "x"},
        {"Fn::Sub": "${Nobody}"},
        {"Fn::Join": ["", [{"Fn::If": ["c", "a", "b"]}]]},
    ],
)
def test_resolve_refuses_unknown_values(value):
    with pytest.raises(UnresolvedTemplate):
        resolve(value, DEPLOYED)


def _template(**resources):
    return {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket"}, **resources}}


ROLE = {"Type": "AWS::IAM::Role", "Properties": {}}
POLICY = {
    "Type": "AWS::IAM::Policy",
    "Properties": {
        "Roles": [{"Ref": "Role"}],
        "PolicyDocument": {"Statement": [{"Resource": ARN}]},
    },
}
RESOLVED = {"Statement": [{"Resource": "arn:aws:s3:::work-1"}]}


def test_roles_have_inline_and_separate_policies():
    inside = {"PolicyName": "p", "PolicyDocument": POLICY["Properties"]["PolicyDocument"]}
    role = {"Type": "AWS::IAM::Role", "Properties": {"Policies": [inside]}}
    assert roles_of(_template(Role=role, Other=ROLE, Beside=POLICY), DEPLOYED) == {
        "Role": {"Role/p": RESOLVED, "Beside": RESOLVED},
        "Other": {},
    }
