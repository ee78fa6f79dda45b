"""ECS operations on Express services."""

from moto.core.responses import ActionResult

from sandbox.services.ecs.express_services import gateway_services
from sandbox.services.ecs.results import EcsActionResult, EcsResponse


class ExpressServicesResponse(EcsResponse):
    """Answers requests about Express services."""

    def create_express_gateway_service(self) -> ActionResult:
        express = gateway_services.create_service(self.backend, self.request_params)
        return EcsActionResult({"service": gateway_services.describe_service(express, with_tags=True)})

    def describe_express_gateway_service(self) -> ActionResult:
        express = gateway_services.find_service(self.backend, self.request_params["serviceArn"])
        with_tags = "TAGS" in (self.request_params.get("include") or [])
        return EcsActionResult({"service": gateway_services.describe_service(express, with_tags=with_tags)})

    def update_express_gateway_service(self) -> ActionResult:
        express, configuration = gateway_services.update_service(self.backend, self.request_params)
        described = gateway_services.describe_service(express)
        return EcsActionResult({"service": {**described, "targetConfiguration": configuration}})

    def delete_express_gateway_service(self) -> ActionResult:
        express = gateway_services.delete_service(self.backend, self.request_params["serviceArn"])
        return EcsActionResult({"service": gateway_services.describe_service(express)})
