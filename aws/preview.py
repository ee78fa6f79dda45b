"""A caller that lets reads through and writes down the writes instead of sending them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.model import StructureShape

from aws.caller import Caller
from aws.names import is_write
from aws.shapes import operation_model

_NAMING = ("Arn", "ARN", "arn", "Id", "id")


@dataclass(frozen=True)
class PlannedWrite:
    """A write that was not sent."""

    service: str
    operation: str
    params: dict[str, Any]


@dataclass
class PreviewCaller:
    """Records writes in `writes` and answers them with what was asked for, unknown ids named in brackets."""

    caller: Caller
    writes: list[PlannedWrite] = field(default_factory=list)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if not is_write(service, operation):
            return self.caller.call(service, operation, params)
        self.writes.append(PlannedWrite(service, operation, dict(params)))
        return self._answer(service, operation, params)

    def _answer(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        output = operation_model(service, operation).output_shape
        if not isinstance(output, StructureShape):
            return {}
        answer = self._echo(output, params, operation)
        for name, shape in output.members.items():
            if shape.type_name == "structure":
                answer[name] = self._echo(shape, params, operation)
        if "service" in answer:
            self._give_deployment(answer["service"], params)
        return answer

    def _echo(self, shape: Any, params: Mapping[str, Any], operation: str) -> dict[str, Any]:
        """The members of a shape that the parameters name too; its own ids get a placeholder."""
        echoed = {name: params[name] for name in shape.members if name in params}
        for name, member in shape.members.items():
            if name not in echoed and member.type_name == "string" and name.endswith(_NAMING):
                echoed[name] = f"<{name} of {operation} {len(self.writes)}>"
        return echoed

    def _give_deployment(self, service: dict[str, Any], params: Mapping[str, Any]) -> None:
        service.setdefault("serviceName", params.get("service", ""))
        service.setdefault("status", "ACTIVE")
        deployment = {"id": f"<deployment {len(self.writes)}>", "status": "PRIMARY"}
        copied = {key: params[key] for key in ("taskDefinition", "desiredCount") if key in params}
        service["deployments"] = [deployment | copied]
