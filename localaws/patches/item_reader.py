"""The item reader of a distributed Map: what cannot be read has its own error."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError
from moto.stepfunctions.parser.asl.component.state.exec.state_map.item_reader.item_reader_decl import (
    ItemReader,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment

from localaws.patches.failures import ITEM_READER_FAILED, failure
from localaws.patches.patching import original, replace


def apply() -> None:
    """Report failures as States.ItemReaderFailed, not as States.Runtime."""
    evaluate = original(ItemReader, "_eval_body")

    def eval_body(self: ItemReader, env: Environment) -> None:
        try:
            evaluate(self, env)
        except (ClientError, BotoCoreError, ValueError) as error:
            raise failure(env, ITEM_READER_FAILED, str(error)) from error
        if not isinstance(env.stack[-1], list):
            raise failure(env, ITEM_READER_FAILED, "Attempting to map over non-iterable node.")

    replace(ItemReader, "_eval_body", eval_body)
