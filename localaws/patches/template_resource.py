"""Base for resource types of templates that moto's CloudFormation lacks."""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import Any, ClassVar, NoReturn, Self


class TemplateResource:
    """Resource that is a setting of another resource, without attributes of its own.

    moto finds only direct subclasses of `CloudFormationModel`, so a type inherits from both.
    """

    TYPE: ClassVar[str]
    """Type in templates, such as AWS::SQS::QueuePolicy."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    @abstractmethod
    def attach(cls, properties: dict[str, Any], account: str, region: str) -> None:
        """Apply the properties to the resource that they belong to."""

    @property
    def physical_resource_id(self) -> str:
        return self.name

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""

    @classmethod
    def cloudformation_type(cls) -> str:
        return cls.TYPE

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        del attr
        return False

    def get_cfn_attribute(self, attribute_name: str) -> NoReturn:
        raise KeyError(attribute_name)

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **rest: Any,
    ) -> Self:
        del rest
        properties = json.loads(json.dumps(cloudformation_json["Properties"]))
        cls.attach(properties, account_id, region_name)
        return cls(resource_name)

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: Any,
        new_resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
    ) -> Self:
        del new_resource_name
        return cls.create_from_cloudformation_json(
            original_resource.name, cloudformation_json, account_id, region_name
        )

    @classmethod
    def delete_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
    ) -> None:
        """Do nothing: it is deleted with the resource that it belongs to."""
