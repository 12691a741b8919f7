"""Layers of the functions that read sources: those that are given, and one for each extra."""

from __future__ import annotations

import tempfile
from pathlib import Path

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from .settings import Settings
from .wheels import PACKAGES, check_sizes, fetch_wheel, unpack_wheel


class Layers(Construct):
    """Layers with the packages that read Parquet and Zstandard, for the functions' platform."""

    def __init__(self, scope: Construct, name: str, *, settings: Settings, code_bytes: int) -> None:
        """`code_bytes`: size of the functions' code, unzipped.

        Raises `LayersTooLarge`, `WheelUnavailable` and `WheelDamaged`.
        """
        super().__init__(scope, name)
        self.versions: list[lambda_.ILayerVersion] = [
            lambda_.LayerVersion.from_layer_version_arn(self, f"Given{number}", arn)
            for number, arn in enumerate(settings.layers, 1)
        ]
        sizes = {"the code": code_bytes}
        for extra in settings.extras:
            with tempfile.TemporaryDirectory() as folder:
                wheel = fetch_wheel(PACKAGES[extra], settings.runtime, settings.architecture)
                sizes[extra] = unpack_wheel(wheel, Path(folder) / "python")
                self.versions.append(self._make(extra, folder, settings))
        check_sizes(sizes)

    def _make(self, extra: str, folder: str, settings: Settings) -> lambda_.LayerVersion:
        arm = settings.architecture == "arm64"
        return lambda_.LayerVersion(
            self,
            extra.title(),
            code=lambda_.Code.from_asset(folder),
            description=f"{PACKAGES[extra]}, for the extra {extra} of ddbload",
            compatible_runtimes=[lambda_.Runtime(settings.runtime, lambda_.RuntimeFamily.PYTHON)],
            compatible_architectures=[
                lambda_.Architecture.ARM_64 if arm else lambda_.Architecture.X86_64
            ],
        )
