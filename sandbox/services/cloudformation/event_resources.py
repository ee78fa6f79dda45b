"""Handlers of queues of SQS and rules of EventBridge."""

import json
from typing import Any, Final

from sandbox.services.cloudformation.resource_types import (
    PhysicalResource,
    ResourceHandler,
    ResourceProperties,
    ServiceCall,
)
from sandbox.services.cloudformation.templates import ResourceFailed

_NOT_ATTRIBUTES: Final = frozenset({"QueueName", "Tags"})


class QueueHandler(ResourceHandler):
    """AWS::SQS::Queue, by its URL."""

    replacing = frozenset({"QueueName", "FifoQueue"})
    name_property = "QueueName"

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        queue_name = str(properties.get("QueueName") or name)
        existing = call("sqs", "ListQueues", {"QueueNamePrefix": queue_name}).get("QueueUrls") or ()
        if any(url.rpartition("/")[2] == queue_name for url in existing):
            raise ResourceFailed(f"{queue_name} already exists in stack")
        params = {"QueueName": queue_name, "Attributes": _build_attributes(properties)}
        url = call("sqs", "CreateQueue", params)["QueueUrl"]
        attributes = call("sqs", "GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["QueueArn"]})
        arn = attributes["Attributes"]["QueueArn"]
        return PhysicalResource(url, {"Arn": arn, "QueueName": queue_name, "QueueUrl": url})

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        params = {"QueueUrl": made.physical_id, "Attributes": _build_attributes(properties)}
        call("sqs", "SetQueueAttributes", params)
        return made

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("sqs", "DeleteQueue", {"QueueUrl": made.physical_id})


class QueuePolicyHandler(ResourceHandler):
    """AWS::SQS::QueuePolicy, which sets the access policy of queues."""

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        urls = list(map(str, properties["Queues"]))
        for url in urls:
            policy = {"Policy": json.dumps(properties["PolicyDocument"])}
            call("sqs", "SetQueueAttributes", {"QueueUrl": url, "Attributes": policy})
        return PhysicalResource(name, {"Queues": json.dumps(urls)})

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        return self.create(call, made.physical_id, properties)

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        for url in json.loads(made.attributes["Queues"]):
            call("sqs", "SetQueueAttributes", {"QueueUrl": url, "Attributes": {"Policy": ""}})


class RuleHandler(ResourceHandler):
    """AWS::Events::Rule of the default bus, with its targets."""

    replacing = frozenset({"Name", "EventBusName"})
    name_property = "Name"

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        rule_name = str(properties.get("Name") or name)
        params: dict[str, Any] = {"Name": rule_name, "State": properties.get("State", "ENABLED")}
        params |= {"Description": properties["Description"]} if "Description" in properties else {}
        if "EventPattern" in properties:
            params["EventPattern"] = json.dumps(properties["EventPattern"])
        arn = call("events", "PutRule", params)["RuleArn"]
        if targets := list(properties.get("Targets") or ()):
            call("events", "PutTargets", {"Rule": rule_name, "Targets": targets})
        ids = json.dumps([target["Id"] for target in targets])
        return PhysicalResource(rule_name, {"Arn": arn, "TargetIds": ids})

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        return self.create(call, made.physical_id, properties)

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        if ids := json.loads(made.attributes["TargetIds"]):
            call("events", "RemoveTargets", {"Rule": made.physical_id, "Ids": ids})
        call("events", "DeleteRule", {"Name": made.physical_id})


def _build_attributes(properties: ResourceProperties) -> dict[str, str]:
    """Return the properties of a queue as attributes, whose values are texts."""
    return {
        name: json.dumps(value) if isinstance(value, dict | bool) else str(value)
        for name, value in properties.items()
        if name not in _NOT_ATTRIBUTES
    }


EVENT_HANDLERS = {
    "AWS::Events::Rule": RuleHandler(),
    "AWS::SQS::Queue": QueueHandler(),
    "AWS::SQS::QueuePolicy": QueuePolicyHandler(),
}
