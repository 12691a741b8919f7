"""Uploads send events, and events reach the targets of matching rules."""

import json

from tests.localaws.conftest import receive, wait_for
from tests.localaws.template import template


def wait_for_event(app, matches):
    """Wait for a stored event for which `matches` is true."""
    s3 = app.client("s3")
    bucket = app.outputs["Kept"]

    def look():
        for found in s3.list_objects_v2(Bucket=bucket, Prefix="events/").get("Contents", []):
            event = json.loads(s3.get_object(Bucket=bucket, Key=found["Key"])["Body"].read())
            if matches(event):
                return event
        return None

    return wait_for(look)


def key_of(event):
    return event.get("detail", {}).get("object", {}).get("key")


def test_upload_sends_an_event_in_s3s_format(app):
    key = "keep/a b+ü%41.csv"
    put = app.put(key, b"12345")
    event = wait_for_event(app, lambda event: key_of(event) == key)
    assert event["source"] == "aws.s3"
    assert event["detail-type"] == "Object Created"
    assert event["version"] == "0"
    assert event["account"] == app.aws.account
    assert event["region"] == app.aws.region
    assert event["resources"] == [f"arn:aws:s3:::{app.outputs['Inbox']}"]
    assert event["time"].endswith("Z")
    detail = event["detail"]
    assert detail["version"] == "0"
    assert detail["bucket"] == {"name": app.outputs["Inbox"]}
    assert detail["reason"] == "PutObject"
    item = detail["object"]
    assert int(item.pop("sequencer"), 16) > 0
    assert item == {
        "key": key,
        "size": 5,
        "etag": put["ETag"].strip('"'),
        "version-id": put["VersionId"],
    }


def test_rule_keeps_name_and_permission_after_an_update(app):
    body = template()
    names = ("FunctionRole", "Kept", "Inbox", "Keep", "KeepRule", "KeepPermission")
    body["Resources"] = {name: body["Resources"][name] for name in names}
    body["Outputs"] = {name: {"Value": {"Ref": name}} for name in ("Kept", "Inbox", "KeepRule")}
    app.create_stack("rules", body)
    before = app.outputs_of("rules")
    pattern = body["Resources"]["KeepRule"]["Properties"]["EventPattern"]
    pattern["detail"]["object"]["key"] = [{"prefix": "other/"}]
    app.client("cloudformation").update_stack(StackName="rules", TemplateBody=json.dumps(body))
    assert app.outputs_of("rules") == before
    s3 = app.client("s3")
    s3.put_object(Bucket=before["Inbox"], Key="other/1", Body=b"x")
    wait_for(lambda: s3.list_objects_v2(Bucket=before["Kept"]).get("Contents"))


def test_rule_is_replaced_when_its_name_changes(app):
    body = template()
    rule = body["Resources"]["ForbiddenRule"]
    body["Resources"] = {"Rule": rule}
    rule["Properties"] = {"EventPattern": {"source": ["nobody"]}, "Name": "chosen"}
    body["Outputs"] = {"Rule": {"Value": {"Ref": "Rule"}}}
    app.create_stack("named", body)
    rule["Properties"]["Name"] = "another"
    app.client("cloudformation").update_stack(StackName="named", TemplateBody=json.dumps(body))
    assert app.outputs_of("named") == {"Rule": "another"}
    found = {each["Name"] for each in app.client("events").list_rules()["Rules"]}
    assert "another" in found
    assert "chosen" not in found


def test_multipart_upload_and_copy_send_events(app):
    s3, bucket = app.client("s3"), app.outputs["Inbox"]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="keep/parts")["UploadId"]
    part = s3.upload_part(
        Bucket=bucket, Key="keep/parts", UploadId=upload, PartNumber=1, Body=b"parts"
    )
    s3.complete_multipart_upload(
        Bucket=bucket,
        Key="keep/parts",
        UploadId=upload,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
    )
    event = wait_for_event(app, lambda event: key_of(event) == "keep/parts")
    assert event["detail"]["reason"] == "CompleteMultipartUpload"
    assert event["detail"]["object"]["etag"].endswith("-1")
    s3.copy_object(
        Bucket=bucket, Key="keep/copy", CopySource={"Bucket": bucket, "Key": "keep/parts"}
    )
    event = wait_for_event(app, lambda event: key_of(event) == "keep/copy")
    assert event["detail"]["reason"] == "CopyObject"


def test_bucket_notification_invokes_a_function(app):
    s3, bucket = app.client("s3"), "tells-a-function"
    s3.create_bucket(Bucket=bucket)
    arn = app.client("lambda").get_function(FunctionName=app.outputs["Keep"])
    told = {
        "LambdaFunctionArn": arn["Configuration"]["FunctionArn"],
        "Events": ["s3:ObjectCreated:*"],
    }
    s3.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"LambdaFunctionConfigurations": [told]}
    )
    s3.put_object(Bucket=bucket, Key="a b", Body=b"x")
    event = wait_for_event(app, lambda event: "Records" in event)
    # S3 encodes keys in its notifications, but not in EventBridge's events.
    assert event["Records"][0]["s3"]["object"]["key"] == "a+b"


def test_upload_starts_a_state_machine(app):
    app.put("machine/1")
    event = wait_for_event(app, lambda event: key_of(event) == "machine/1")
    assert event["detail"]["reason"] == "PutObject"


def test_upload_sends_no_event_without_eventbridge_enabled(app):
    app.put("keep/silent", bucket="Kept", body=b"{}")
    app.put("keep/loud")
    wait_for_event(app, lambda event: key_of(event) == "keep/loud")
    s3 = app.client("s3")
    for found in s3.list_objects_v2(Bucket=app.outputs["Kept"], Prefix="events/")["Contents"]:
        body = s3.get_object(Bucket=app.outputs["Kept"], Key=found["Key"])["Body"].read()
        assert key_of(json.loads(body)) != "keep/silent"


def test_event_goes_to_dead_letters_without_the_functions_permission(app):
    app.put("forbidden/1")
    dead = receive(app, "DeadLetters", lambda event: key_of(event) == "forbidden/1")
    assert dead["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "NO_PERMISSIONS"


def test_event_is_retried_then_sent_to_destinations_when_the_function_fails(app):
    app.put("fail/1")
    record = json.loads(
        receive(app, "Failures", lambda record: key_of(record["requestPayload"]) == "fail/1")[
            "Body"
        ]
    )
    assert record["requestContext"]["approximateInvokeCount"] == 2
    assert receive(app, "DeadLetters", lambda event: key_of(event) == "fail/1")
