"""Functions of the template under test: deployed as text, never imported here."""

import json
import os
import time


class NoSuchColour(Exception):
    pass


def answer(event, context):
    """Do what the event asks for."""
    wish = event.get("wish") if isinstance(event, dict) else None
    if wish == "raise":
        raise NoSuchColour("mauve")
    if wish == "sleep":
        time.sleep(event["seconds"])
    if wish == "memory":
        hoard = bytearray(os.urandom(1024 * 1024)) * event["megabytes"]
        # Keep the memory long enough to be noticed.
        time.sleep(10)
        event["hoard"] = len(hoard)
    if wish == "exit":
        os._exit(3)
    if wish == "large":
        return "x" * event["bytes"]
    if wish == "environment":
        return dict(os.environ)
    if wish == "import":
        __import__(event["module"])
    if wish == "whoami":
        import boto3

        return boto3.client("sts").get_caller_identity()["Arn"]
    if wish == "put":
        import boto3

        body = b"x" * 1_000_000 * event.get("megabytes", 1)
        boto3.client("s3").put_object(Bucket=event["bucket"], Key=event["key"], Body=body)
    if wish == "tables":
        import boto3

        return boto3.client("dynamodb").list_tables()["TableNames"]
    if wish == "lose":
        # Fail the first time only; a marker in S3 remembers it, since a failed process is not
        # reused.
        import boto3

        s3 = boto3.client("s3")
        mark = f"marks/{event['name']}"
        if not s3.list_objects_v2(Bucket=event["bucket"], Prefix=mark).get("KeyCount"):
            s3.put_object(Bucket=event["bucket"], Key=mark, Body=b"")
            raise NoSuchColour(event["name"])
    if wish == "fail one" and event["item"] == event["bad"]:
        raise NoSuchColour(str(event["item"]))
    return {"event": event, "pid": os.getpid(), "remaining": context.get_remaining_time_in_millis()}


def keep(event, context):
    """Store the event in the bucket that the test reads."""
    import boto3

    boto3.client("s3").put_object(
        Bucket=os.environ["KEPT"],
        Key=f"events/{context.aws_request_id}.json",
        Body=json.dumps(event),
    )


def custom(event, context):
    """Create a custom resource: send the response to the event's URL."""
    import urllib.request

    wish = event["ResourceProperties"]
    answer = {
        "Status": wish.get("Status", "SUCCESS"),
        "Reason": "the colour is out of stock",
        "PhysicalResourceId": "made-here",
        "Data": {"Given": json.dumps(wish["Given"])},
        **{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
    }
    # AWS's cfnresponse module also sends an empty content type.
    headers = {"Content-Type": ""}
    body = json.dumps(answer).encode()
    request = urllib.request.Request(event["ResponseURL"], body, headers, method="PUT")
    urllib.request.urlopen(request).close()


def fail(event, context):
    print("failing")  # noqa: T201 - the log is what the test reads
    raise NoSuchColour("always")


def work(event, context):
    """Note each message in the bucket; report as many deliveries as failed as a message asks."""
    import boto3

    failed = []
    for record in event["Records"]:
        body = json.loads(record["body"])
        if "detail" in body:
            body = {"name": body["detail"]["object"]["key"].partition("/")[0], "fails": 0}
        count = int(record["attributes"]["ApproximateReceiveCount"])
        boto3.client("s3").put_object(Bucket=os.environ["SEEN"], Key=f"{body['name']}/{count}")
        if count <= body["fails"]:
            failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}
