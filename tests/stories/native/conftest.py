"""A service that ECS deploys by its own strategy, and a pipeline that follows it."""

from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from catalog.manifests.stores import TASK_DEFINITION_ARN
from catalog.models import Manifest
from connectors.models import FileNode
from deployments.models import Approval, Execution
from rbac.models import Scope, User, UserGroup
from tests.stories.blue_green.conftest import FOLDER, _full_buckets, shop  # noqa: F401 - fixtures
from tests.stories.blue_green.shop import Shop

ROLE = "arn:aws:iam::123456789012:role/ecsInfrastructureRoleForLoadBalancers"
SERVICE_FILE = f"{FOLDER}/service.yaml"


@dataclass
class Native:
    """The shop, deployed by ECS's own strategies."""

    shop: Shop

    def choose(self, strategy: str, **configuration: Any) -> None:
        """Write strategy and settings into the service definition."""
        node = FileNode.objects.get(path=SERVICE_FILE)
        document = yaml.safe_load(node.content)
        advanced = {
            "alternateTargetGroupArn": self.shop.group("target2"),
            "productionListenerRule": self.shop.prod["default_rule_arn"],
            "testListenerRule": self.shop.stage["default_rule_arn"],
            "roleArn": ROLE,
        }
        (balancer,) = document["loadBalancers"]
        balancer |= {"targetGroupArn": self.shop.group("target1"), "advancedConfiguration": advanced}
        document["deploymentConfiguration"] = {
            "strategy": strategy,
            "bakeTimeInMinutes": 0,
            **configuration,
        }
        node.content = yaml.safe_dump(document)
        node.save()

    def require_approval(self, *stages: str, **timeout: Any) -> User:
        """Let a group approve what a pause at each stage holds, and return its member.

        `timeout` has the fields of the pause's timeoutConfiguration.
        """
        scope = Scope.objects.get(identifier="demo")
        group = UserGroup.objects.create(scope=scope, identifier="ops", name="Ops")
        approver = User.objects.get(username="admin")
        approver.user_groups.add(group)
        hook: dict[str, Any] = {"targetType": "PAUSE"}
        hook |= {"lifecycleStages": list(stages or ["POST_TEST_TRAFFIC_SHIFT"])}
        if timeout:
            hook["timeoutConfiguration"] = timeout
        self.choose("BLUE_GREEN", lifecycleHooks=[hook])
        self.save_pipeline({"approvers": {"userGroups": ["ops"]}})
        return approver

    def save_pipeline(self, spec: dict[str, Any]) -> None:
        """Save the pipeline with these settings of its step."""
        document = self.shop.document()
        execution = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]
        deploy = {"type": "EcsNativeDeploy", "identifier": "deploy", "name": "Deploy", "spec": spec}
        rollback = {"type": "EcsNativeRollback", "identifier": "rollback", "name": "Rollback"}
        execution |= {"steps": [{"step": deploy}], "rollbackSteps": [{"step": rollback}]}
        self.shop.save(document)

    def deploy_registered(self) -> None:
        """Deploy a registered revision by its ARN from now on, and nothing if it is deployed already."""
        current = self.shop.service("shop")["taskDefinition"]
        found = self.shop.call("ecs", "DescribeTaskDefinition", taskDefinition=current)["taskDefinition"]
        names = ("family", "requiresCompatibilities", "networkMode", "cpu", "memory", "executionRoleArn")
        document = {name: found[name] for name in (*names, "containerDefinitions")}
        made = self.shop.call("ecs", "RegisterTaskDefinition", **document)["taskDefinition"]
        Manifest.objects.filter(kind=Manifest.Kind.TASK_DEFINITION, service__identifier="shop").update(
            store=TASK_DEFINITION_ARN, paths=[], content=made["taskDefinitionArn"]
        )
        self.save_pipeline({"forceNewDeployment": False})

    def until_asked(self, execution: Execution) -> Approval:
        """Advance time until the run waits for an approval whose plan is computed."""
        for _ in range(300):
            self.shop.drive.pass_time(1)
            waiting = Approval.objects.filter(execution=execution, status="WAITING").exclude(plan_hash="")
            if approval := waiting.first():
                return approval
        raise AssertionError(self.log(execution)[-8:])

    def run(self, tag: str) -> Execution:
        return self.shop.drive.run(tag)

    def log(self, execution: Execution) -> list[str]:
        return self.shop.drive.log(execution)

    def until_logged(self, execution: Execution, text: str, *, seconds: float = 1800) -> None:
        """Advance time until a line of the log starts with `text`."""
        for _ in range(int(seconds)):
            if any(line.startswith(text) for line in self.log(execution)):
                return
            self.shop.drive.pass_time(1)
        raise AssertionError(f"no line {text!r}: {self.log(execution)[-8:]}")

    def end_pause(self, action: str = "CONTINUE") -> None:
        """End the only pause of the newest service deployment as another client."""
        deployment = self.deployment()
        (detail,) = deployment["lifecycleHookDetails"]
        parameters = {"hookId": detail["hookId"], "action": action}
        arn = deployment["serviceDeploymentArn"]
        self.shop.call("ecs", "ContinueServiceDeployment", serviceDeploymentArn=arn, **parameters)

    def deployment(self) -> dict[str, Any]:
        """Return the newest service deployment."""
        arn = self.shop.service("shop")["currentServiceDeployment"]
        (answer,) = self.shop.call("ecs", "DescribeServiceDeployments", serviceDeploymentArns=[arn])[
            "serviceDeployments"
        ]
        return dict(answer)


@pytest.fixture
def native(shop: Shop) -> Native:  # noqa: F811 - a fixture
    made = Native(shop)
    made.save_pipeline({})
    made.choose("BLUE_GREEN")
    return made
