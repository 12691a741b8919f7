"""Syntheses of the stack, with cdk-nag's findings.

`python -m tests.infra.synthesis FOLDER '{"knob": "value"}'` makes one, with these knobs besides.

In a process of its own, so that CDK's Node process ends with it, and importing CDK costs
nobody else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CDK = ROOT / "node_modules" / ".bin" / "cdk"
STACK = "ddbload"
CONTEXT = {
    "source_buckets": ["other-source", "third.source"],
    "tables": ["books", "films"],
    "layers": ["arn:aws:lambda:eu-west-1:123456789012:layer:formats:3"],
    "uploads": [
        {"prefix": "books/", "table": "books", "types": {"year": "N"}},
        {"prefix": "films/", "table": "films", "source": {"format": "tsv"}},
        {"prefix": "", "table": "films", "bucket": "other-source", "options": {"workers": 2}},
        {"prefix": "old/", "table": "films", "bucket": "other-source"},
    ],
}
"""Context beyond cdk.json's defaults: a value for each list."""

PACKS = ("AwsSolutions", "Serverless")
"""Packs of cdk-nag's rules that findings are taken from."""

KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
BUCKET_KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ac"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:ops"
NETWORK = {
    "vpc": "vpc-0a1b2c3d",
    "subnets": "subnet-0a1b2c3d4e5f60718,subnet-0a1b2c3d4e5f60719",
    "security_groups": "sg-0a1b2c3d4e5f60718",
}
EXTRAS = {
    "source_buckets": json.dumps(
        [
            *CONTEXT["source_buckets"],
            "narrow/in/",
            "narrow/more",
            {"bucket": "theirs", "owner": "210987654321"},
            {"bucket": "both", "prefix": "x/", "owner": "210987654321", "requester_pays": True},
        ]
    ),
    "kms_keys": KEY,
    "bucket_key": BUCKET_KEY,
    "log_key": "true",
    "alarm_topic": TOPIC,
    "dashboard": "true",
    "tracing": "true",
    "snap_start": "true",
    "import_concurrency": "20",
    **NETWORK,
}
"""Knobs for all that is off by default."""

KEPT = ("HOME", "XDG_CACHE_HOME", "JSII_RUNTIME_PACKAGE_CACHE_ROOT")
"""Variables that say where the CDK's library is unpacked."""

_HASH = re.compile(r"(?<=[a-z])[0-9A-F]{8}(?=[.>])")
"""Hash at the end of a logical id in a finding."""
_OVERFLOW = re.compile(r"/OverflowPolicy[0-9]+/")
"""A role's managed policy, to which CDK moves what does not fit into its inline policy."""


@dataclass(frozen=True)
class Synthesized:
    """A cloud assembly."""

    folder: Path
    stack: str = STACK

    @cached_property
    def template(self) -> dict[str, Any]:
        return self._json(f"{self.stack}.template.json")

    @cached_property
    def asset(self) -> Path:
        """The folder that becomes the functions' code."""
        (found,) = self.folder.glob("asset.*")
        return found

    @cached_property
    def warnings(self) -> list[str]:
        """What synthesis warns of."""
        metadata = self._json(f"{self.stack}.metadata.json")
        return [
            entry["data"]
            for entries in metadata.values()
            for entry in entries
            if entry["type"] == "aws:cdk:warning"
        ]

    @cached_property
    def findings(self) -> set[tuple[str, str]]:
        """cdk-nag's: the rule, and the path of the construct, in the stack."""
        report = self._json("validation-report.json")
        return {
            (
                _HASH.sub("", finding["ruleName"]),
                # The pipeline's own id is left out of logical ids, too.
                _OVERFLOW.sub("/DefaultPolicy/", construct["constructPath"]).removeprefix(
                    f"{STACK}/Default/"
                ),
            )
            for plugin in report["pluginReports"]
            if plugin["pluginName"] in PACKS
            for finding in plugin["violations"]
            for construct in finding["violatingConstructs"]
        }

    def _json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text("utf-8"))


def synthesize(folder: Path, **knobs: str) -> Synthesized:
    """Synthesize the stack with `CONTEXT`, and these knobs, in a process of its own."""
    run(sys.executable, "-m", "tests.infra.synthesis", str(folder), json.dumps(knobs))
    return Synthesized(folder)


def run(*words: str, **variables: str) -> str:
    """Run something with an environment that leads nowhere; what it wrote on stdout.

    No credentials, no HOME of anybody's, and a proxy where nothing listens.
    """
    done = attempt(*words, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def attempt(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The same for what may fail."""
    nowhere = "http://127.0.0.1:9"
    environment = {
        "PATH": os.environ["PATH"],
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "AWS_EC2_METADATA_DISABLED": "true",
        # Unpacking the CDK's library takes as long as synthesis.
        **{name: os.environ[name] for name in KEPT if name in os.environ},
        **variables,
    }
    return subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def main() -> None:
    import cdk_nag
    from aws_cdk import App, Validations

    from app import build

    defaults = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]
    context = {**defaults, **CONTEXT, **json.loads(sys.argv[2])}
    app = App(
        outdir=sys.argv[1],
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
        context=context,
    )
    build(app)
    Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app), cdk_nag.ServerlessChecks(app))
    # Findings come as an exception, when all is written: the tests look at the report.
    try:
        app.synth()
    except RuntimeError as error:
        if "ValidationFailed" not in str(error):
            raise


if __name__ == "__main__":
    main()
