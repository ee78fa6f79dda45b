"""Application Auto Scaling with AWS's side effects on policies and desired counts."""

import json
from typing import Any
from uuid import uuid4

import moto.applicationautoscaling.urls
from moto.applicationautoscaling.exceptions import AWSValidationException
from moto.applicationautoscaling.models import (
    ApplicationAutoscalingBackend,
    FakeApplicationAutoscalingPolicy,
    FakeScalableTarget,
    applicationautoscaling_backends,
)
from moto.applicationautoscaling.responses import ApplicationAutoScalingResponse
from moto.core.exceptions import JsonRESTError
from moto.ecs.models import ecs_backends

from sandbox.clock import CLOCK
from sandbox.journal import mark_unchanged
from sandbox.services.ecs.backend import SandboxEcs
from sandbox.services.ecs.records import SandboxService

SERVICE_ROLE = "ecs.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_ECSService"
NOTHING_SUSPENDED = {
    "DynamicScalingInSuspended": False,
    "DynamicScalingOutSuspended": False,
    "ScheduledScalingSuspended": False,
}
PAGE_SIZE = 50


def _find_service(backend: ApplicationAutoscalingBackend, resource_id: str) -> SandboxService | None:
    ecs = ecs_backends[backend.account_id][backend.region_name]
    _, _, place = resource_id.partition("/")
    cluster, _, name = place.partition("/")
    return ecs.services.get(f"{cluster}:{name}") if isinstance(ecs, SandboxEcs) else None


def _clamp_count(service: SandboxService, target: FakeScalableTarget) -> bool:
    least, most = int(target.min_capacity or 0), int(target.max_capacity or 0)
    clamped = min(max(service.desired_count, least), most)
    changed = clamped != service.desired_count
    service.desired_count = clamped
    service.due_at = 0.0
    return changed


class ScalingObjectNotFound(JsonRESTError):
    """Error of AWS for a missing target or policy."""

    def __init__(self, noun: str, namespace: str, resource_id: str, dimension: str) -> None:
        super().__init__(
            "ObjectNotFoundException",
            f"No {noun} for service namespace: {namespace}, resource ID: {resource_id},"
            f" scalable dimension: {dimension}",
        )


class SandboxScaling(ApplicationAutoscalingBackend):
    """moto's back end with the side effects that AWS has."""

    @property
    def _url_module(self) -> Any:
        return moto.applicationautoscaling.urls

    def _ecs_service_exists_for_target(self, r_id: str) -> bool:
        service = _find_service(self, r_id)
        if service is None or service.status != "ACTIVE":
            raise AWSValidationException(f"ECS service doesn't exist: {r_id}")
        return True

    def register_scalable_target(
        self,
        namespace: str,
        r_id: str,
        dimension: str,
        min_capacity: int | None,
        max_capacity: int | None,
        role_arn: str,
        suspended_state: Any,
    ) -> FakeScalableTarget:
        existing = self.targets.get(dimension, {}).get(r_id)
        if existing is None and (min_capacity is None or max_capacity is None):
            raise AWSValidationException(
                "MinCapacity and MaxCapacity are required to register a scalable target"
            )
        before = dict(vars(existing)) if existing else {}
        role = role_arn or f"arn:aws:iam::{self.account_id}:role/aws-service-role/{SERVICE_ROLE}"
        suspended = {**(before.get("suspended_state") or NOTHING_SUSPENDED), **(suspended_state or {})}
        low = min_capacity if min_capacity is not None else before.get("min_capacity", 0)
        high = max_capacity if max_capacity is not None else before.get("max_capacity", 0)
        if low > high:
            raise AWSValidationException("Maximum capacity cannot be less than minimum capacity")
        target = super().register_scalable_target(namespace, r_id, dimension, low, high, role, suspended)
        service = _find_service(self, r_id)
        is_clamped = service is not None and _clamp_count(service, target)
        if is_clamped and service is not None:
            self._record_activity(r_id, dimension, service.desired_count, low)
        if vars(target) == before and not is_clamped:
            mark_unchanged()
        return target

    def _record_activity(self, resource_id: str, dimension: str, count: int, low: int) -> None:
        """Write down that scaling has set a desired count, as AWS does."""
        bound = "minimum" if count == low else "maximum"
        activity = {
            "ActivityId": str(uuid4()),
            "ServiceNamespace": "ecs",
            "ResourceId": resource_id,
            "ScalableDimension": dimension,
            "Description": f"Setting desired count to {count}.",
            "Cause": f"{bound} capacity was set to {count}",
            "StartTime": CLOCK.now().timestamp(),
            "EndTime": CLOCK.now().timestamp(),
            "StatusCode": "Successful",
            "StatusMessage": f"Successfully set desired count to {count}. Change successfully fulfilled"
            " by ecs.",
        }
        # A stored state of an older sandbox has no such list.
        self.__dict__.setdefault("activities", []).insert(0, activity)

    def describe_scaling_activities(
        self, resource_id: str | None, start: int, most: int
    ) -> tuple[str | None, list[dict[str, Any]]]:
        """Return the activities of one resource or of all, the newest first."""
        activities = vars(self).get("activities", ())
        matches = [
            activity for activity in activities if not resource_id or activity["ResourceId"] == resource_id
        ]
        end = start + most
        return (str(end) if end < len(matches) else None), matches[start:end]

    def deregister_scalable_target(self, namespace: str, r_id: str, dimension: str) -> None:
        if not self._scalable_target_exists(r_id, dimension):
            raise ScalingObjectNotFound("scalable target found", namespace, r_id, dimension)
        super().deregister_scalable_target(namespace, r_id, dimension)
        for key, policy in list(self.policies.items()):
            if policy.resource_id == r_id and policy.scalable_dimension == dimension:
                policy.delete_alarms(self.account_id, self.region_name)
                del self.policies[key]
        for action in list(self.scheduled_actions):
            if (action.resource_id, action.scalable_dimension) == (r_id, dimension):
                self.scheduled_actions.remove(action)

    def put_scaling_policy(
        self,
        policy_name: str,
        service_namespace: str,
        resource_id: str,
        scalable_dimension: str,
        policy_body: dict[str, Any],
        policy_type: str | None,
    ) -> FakeApplicationAutoscalingPolicy:
        place = (service_namespace, resource_id, scalable_dimension)
        if not self._scalable_target_exists(resource_id, scalable_dimension):
            raise ScalingObjectNotFound("scalable target registered", *place)
        before = self.policies.get(FakeApplicationAutoscalingPolicy.formulate_key(*place, policy_name))
        policy = super().put_scaling_policy(policy_name, *place, policy_body, policy_type)
        if before is not None:
            # A policy put again is the same policy, with alarms made anew.
            before.delete_alarms(self.account_id, self.region_name)
            policy.policy_arn, policy.creation_time = before.policy_arn, before.creation_time
        return policy

    def delete_scaling_policy(
        self, policy_name: str, service_namespace: str, resource_id: str, scalable_dimension: str
    ) -> None:
        place = (service_namespace, resource_id, scalable_dimension)
        if FakeApplicationAutoscalingPolicy.formulate_key(*place, policy_name) not in self.policies:
            raise ScalingObjectNotFound("scaling policy found", *place)
        super().delete_scaling_policy(policy_name, *place)

    def describe_scaling_policies(
        self,
        service_namespace: str,
        resource_id: str,
        scalable_dimension: str,
        max_results: int | None,
        next_token: str,
    ) -> tuple[str | None, list[FakeApplicationAutoscalingPolicy]]:
        # moto compares by "is part of", and so mixes myapp with myapp-canary.
        matches = [
            p
            for p in self.policies.values()
            if p.service_namespace == service_namespace
            and (not resource_id or p.resource_id == resource_id)
            and (not scalable_dimension or p.scalable_dimension == scalable_dimension)
        ]
        start = int(next_token) if next_token else 0
        end = start + (max_results or PAGE_SIZE)
        return (str(end) if end < len(matches) else None), matches[start:end]


def _describe_scaling_activities(response: ApplicationAutoScalingResponse) -> str:
    get_param = response._get_param
    most = min(response._get_int_param("MaxResults") or PAGE_SIZE, PAGE_SIZE)
    token, activities = response.applicationautoscaling_backend.describe_scaling_activities(
        get_param("ResourceId"), int(get_param("NextToken") or 0), most
    )
    return json.dumps({"ScalingActivities": activities, **({"NextToken": token} if token else {})})


def install_autoscaling() -> None:
    """Install this back end in moto for every account and region."""
    ApplicationAutoScalingResponse.describe_scaling_activities = _describe_scaling_activities
    applicationautoscaling_backends.backend = SandboxScaling
