"""The demo project, with the auto scaling of its ECS service at hand."""

from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from catalog.models import Manifest, Service
from tests.deployments.conftest import _full_buckets, drive  # noqa: F401 - fixtures
from tests.fixtures.engine_driver import Drive

PLACE = {
    "ServiceNamespace": "ecs",
    "ResourceId": "service/demo/myapp",
    "ScalableDimension": "ecs:service:DesiredCount",
}
TARGET = {"serviceNamespace": "ecs", "scalableDimension": "ecs:service:DesiredCount"}


def tracking(name: str, value: float, **more: Any) -> dict[str, Any]:
    """A policy as its manifest is written in the reference (R257)."""
    metric = {"predefinedMetricType": "ECSServiceAverageCPUUtilization"}
    return {
        "policyName": name,
        "policyType": "TargetTrackingScaling",
        "targetTrackingScalingPolicyConfiguration": {
            "targetValue": value,
            "predefinedMetricSpecification": metric,
            **more,
        },
    }


@dataclass
class AutoScaling:
    """What a person sees and does of the auto scaling of myapp, and the manifests that ask for it."""

    drive: Drive

    def set_manifests(
        self, *policies: dict[str, Any], bounds: tuple[int, int] | None = None, **target: Any
    ) -> None:
        """Give the service these manifests, and no other of these kinds."""
        service = Service.objects.get(identifier="myapp")
        service.manifests.filter(
            kind__in=(Manifest.Kind.SCALABLE_TARGET, Manifest.Kind.SCALING_POLICY)
        ).delete()
        if bounds:
            document = {**TARGET, "minCapacity": bounds[0], "maxCapacity": bounds[1], **target}
            self._manifest(service, "target", Manifest.Kind.SCALABLE_TARGET, document)
        for policy in policies:
            self._manifest(service, policy["policyName"], Manifest.Kind.SCALING_POLICY, policy)

    def _manifest(self, service: Service, name: str, kind: str, document: dict[str, Any]) -> None:
        Manifest.objects.create(
            service=service, identifier=name, kind=kind, store="Inline", content=yaml.safe_dump(document)
        )

    def call(self, operation: str, **params: Any) -> dict[str, Any]:
        return self.drive.call("application-autoscaling", operation, {**PLACE, **params})

    def register_target(self, least: int, most: int, **suspended: bool) -> None:
        """A person registers a scalable target in AWS."""
        state = {"SuspendedState": suspended} if suspended else {}
        self.call("RegisterScalableTarget", MinCapacity=least, MaxCapacity=most, **state)

    def put_policy(self, name: str, value: float) -> str:
        """A person attaches a policy in AWS; answers its ARN."""
        configuration = {
            "TargetValue": value,
            "PredefinedMetricSpecification": {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"},
        }
        answer = self.call(
            "PutScalingPolicy",
            PolicyName=name,
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration=configuration,
        )
        return str(answer["PolicyARN"])

    @property
    def target(self) -> dict[str, Any] | None:
        params = {"ServiceNamespace": "ecs", "ResourceIds": [PLACE["ResourceId"]]}
        answer = self.drive.call("application-autoscaling", "DescribeScalableTargets", params)
        return next(iter(answer["ScalableTargets"]), None)

    @property
    def policies(self) -> dict[str, dict[str, Any]]:
        policies = self.call("DescribeScalingPolicies")["ScalingPolicies"]
        return {policy["PolicyName"]: policy for policy in policies}

    @property
    def is_active(self) -> bool:
        return self.target is not None and not any(self.target["SuspendedState"].values())

    def read_all(self) -> dict[str, Any]:
        """Return the scalable target and its policies without dates."""
        target = {k: v for k, v in (self.target or {}).items() if k != "CreationTime"}
        policies = {
            name: {k: v for k, v in policy.items() if k not in ("CreationTime", "Alarms")}
            for name, policy in self.policies.items()
        }
        return {"target": target, "policies": policies}

    def set_count(self, count: int) -> None:
        """Set the desired count, as auto scaling does."""
        self.drive.call(
            "ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "desiredCount": count}
        )
        self.drive.pass_time(40, step=10)


@pytest.fixture
def scaling(drive: Drive) -> AutoScaling:  # noqa: F811
    return AutoScaling(drive)
