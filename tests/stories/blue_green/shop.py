"""What is true in the pretend account behind a blue/green deployment, and a client that keeps asking."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import yaml

from aws.apis.elb import get_target_group_weights
from connectors.models import Connector
from delegates.access.aws_access import open_aws_access
from deployments.execution.operations import roll_back_execution
from deployments.models import Execution
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User
from tests.fixtures.engine_driver import Drive

# A target needs far longer from being registered to being healthy: no empty moment fits in between.
STEP = 2
NAMES = ("shop__1", "shop__2")


@dataclass
class Shop:
    """The shop's load balancer, its two ECS services, and time in the hand of the test."""

    drive: Drive
    balancer: dict[str, Any]
    meetings: list[str] = field(default_factory=list)
    visits_path: bool = False

    @property
    def prod(self) -> dict[str, Any]:
        listener: dict[str, Any] = self.balancer["prod_listener"]
        return listener

    @property
    def stage(self) -> dict[str, Any]:
        listener: dict[str, Any] = self.balancer["stage_listener"]
        return listener

    def group(self, name: str) -> str:
        """The ARN of a target group."""
        return str(self.balancer["target_groups"][name])

    def document(
        self,
        swap: dict[str, Any] | None = None,
        shifts: Sequence[dict[str, Any]] = (),
        between: Sequence[dict[str, Any]] = (),
        **create: Any,
    ) -> dict[str, Any]:
        """The pipeline, with other settings of its two steps, shifts of traffic and steps between those."""
        spec = {
            "loadBalancer": "demo",
            "prodListener": self.prod["arn"],
            "prodListenerRuleArn": self.prod["default_rule_arn"],
            "stageListener": self.stage["arn"],
            "stageListenerRuleArn": self.stage["default_rule_arn"],
            **create,
        }
        steps = [
            _step("EcsBlueGreenCreateService", "create", spec),
            *_interleave(
                [
                    _step("EcsBlueGreenTrafficShift", f"shift{number}", shift)
                    for number, shift in enumerate(shifts, 1)
                ],
                between,
            ),
            _step("EcsBlueGreenSwapTargetGroups", "swap", swap or {}),
        ]
        stage = {
            "identifier": "deploy",
            "name": "Deploy",
            "type": "Deployment",
            "spec": {
                "deploymentType": "ECS",
                "service": {"serviceRef": "shop"},
                "environment": {
                    "environmentRef": "dev",
                    "infrastructureDefinitions": [{"identifier": "sandbox"}],
                },
                "execution": {
                    "steps": steps,
                    "rollbackSteps": [_step("EcsBlueGreenRollback", "rollback", {})],
                },
            },
        }
        return {"pipeline": {"identifier": "shop", "name": "Shop", "stages": [{"stage": stage}]}}

    def choose(self, swap: dict[str, Any] | None = None, **settings: Any) -> None:
        """Save the pipeline with these settings."""
        self.save(self.document(swap, **settings))

    def save(self, document: dict[str, Any]) -> None:
        self.drive.pipeline = save_pipeline(
            actor=User.objects.get(username="admin"),
            scope=Scope.objects.get(identifier="demo"),
            yaml=yaml.safe_dump(document),
            pipeline=self.drive.pipeline,
        )

    def choose_steps(self, *types: str) -> None:
        """Save the pipeline with these step types only."""
        document = self.document()
        execution = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]
        execution["steps"] = [step for step in execution["steps"] if step["step"]["type"] in types]
        self.save(document)

    def use_network_balancer(self) -> None:
        """Replace the application load balancer by a network load balancer."""
        seed = self.drive.sandbox.seed()
        response = self.call(
            "elbv2", "CreateLoadBalancer", Name="net", Type="network", Subnets=seed["subnets"]
        )
        arn = response["LoadBalancers"][0]["LoadBalancerArn"]
        listeners, groups = [], {}
        for name, port in (("target1", 80), ("target2", 8080)):
            checks = {"HealthCheckIntervalSeconds": 8, "HealthCheckTimeoutSeconds": 5}
            response = self.call(
                "elbv2",
                "CreateTargetGroup",
                Name=f"net-{name}",
                Protocol="TCP",
                Port=80,
                VpcId=seed["vpc"],
                TargetType="ip",
                **checks,
            )
            groups[name] = response["TargetGroups"][0]["TargetGroupArn"]
            actions = [{"Type": "forward", "TargetGroupArn": groups[name]}]
            response = self.call(
                "elbv2",
                "CreateListener",
                LoadBalancerArn=arn,
                Protocol="TCP",
                Port=port,
                DefaultActions=actions,
            )
            listeners.append({"arn": response["Listeners"][0]["ListenerArn"], "default_rule_arn": ""})
        self.balancer = {
            "prod_listener": listeners[0],
            "stage_listener": listeners[1],
            "target_groups": groups,
        }
        self.choose(loadBalancer="net")

    def forward(self, listener: dict[str, Any], actions: list[dict[str, Any]]) -> None:
        """Change a default rule as somebody else would."""
        self.call("elbv2", "ModifyListener", ListenerArn=listener["arn"], DefaultActions=actions)

    def actions(self, listener: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the actions of a listener's default rule."""
        (description,) = self.call("elbv2", "DescribeListeners", ListenerArns=[listener["arn"]])["Listeners"]
        actions: list[dict[str, Any]] = description["DefaultActions"]
        return actions

    def call(self, service: str, operation: str, /, **params: Any) -> dict[str, Any]:
        """Call AWS as another client of the same account."""
        connector = Connector.objects.get(identifier="sandbox_aws")
        return open_aws_access(connector, "us-east-1").call(service, operation, params)

    # --- what is true -----------------------------------------------------------------------------

    def service(self, name: str) -> dict[str, Any]:
        """Return an ECS service; empty if it does not exist."""
        services = self.call("ecs", "DescribeServices", cluster="demo", services=[name])["services"]
        service: dict[str, Any] = services[0] if services else {}
        return {} if service.get("status") == "INACTIVE" else service

    def tags(self, name: str) -> dict[str, str]:
        arn = self.service(name)["serviceArn"]
        tags = self.call("ecs", "ListTagsForResource", resourceArn=arn)["tags"]
        return {tag["key"]: tag["value"] for tag in tags}

    def forwards(self, listener: dict[str, Any], path: bool = False) -> list[str]:
        """Return the target groups of a listener's rule."""
        actions = self.actions(listener)
        if path:
            rule = listener["path_rule_arn"]
            actions = self.call("elbv2", "DescribeRules", RuleArns=[rule])["Rules"][0]["Actions"]
        groups: list[str] = []
        for action in actions:
            config = action.get("ForwardConfig", {}).get("TargetGroups", [])
            groups += [group["TargetGroupArn"] for group in config if group.get("Weight", 1)]
            if not config and action["Type"] == "forward":
                groups.append(action["TargetGroupArn"])
        return groups

    def weights(self) -> dict[str, int]:
        """Return the weights of the target groups of the production listener's default rule."""
        return get_target_group_weights(self.actions(self.prod))

    def healthy(self, group: str) -> int:
        answer = self.call("elbv2", "DescribeTargetHealth", TargetGroupArn=group)
        states = [description["TargetHealth"]["State"] for description in answer["TargetHealthDescriptions"]]
        return states.count("healthy")

    def state(self) -> dict[str, Any]:
        """Everything that a rollback must bring back."""
        return {
            "prod": self.forwards(self.prod),
            "path": self.forwards(self.prod, path="path_rule_arn" in self.prod),
            "stage": self.forwards(self.stage),
            "services": {name: self._service_state(name) for name in NAMES},
        }

    def _service_state(self, name: str) -> dict[str, Any]:
        service = self.service(name)
        if not service:
            return {}
        fields = ("taskDefinition", "desiredCount", "runningCount", "loadBalancers", "launchType", "status")
        return {**{key: service.get(key) for key in fields}, "tags": self.tags(name)}

    # --- a client ---------------------------------------------------------------------------------

    def visit(self) -> None:
        """One request to the production listener: note every group that has no healthy target."""
        for group in self.forwards(self.prod, path=self.visits_path):
            if not self.healthy(group):
                self.meetings.append(f"{self.drive.clock.now()} {group} has no healthy target")

    def until_over(
        self, execution: Execution, *, visited: bool = False, most_seconds: int = 1800
    ) -> Execution:
        """Let time go by; with a client it does so in small steps, and the client asks around each look."""
        if not visited:
            return self.drive.until_over(execution, most_seconds)
        for _ in range(most_seconds // STEP):
            self.visit()
            self.drive.reconcile()
            self.visit()
            execution.refresh_from_db()
            if execution.is_over:
                return execution
            self.drive.clock.move(STEP)
            self.drive.sandbox.advance(STEP)
        raise AssertionError(f"{execution} is still {execution.status}: {self.drive.log(execution)[-8:]}")

    def roll_back(self, execution: Execution, *, visited: bool = False) -> None:
        """Roll a finished execution back, to its end."""
        roll_back_execution(actor=self.drive.deployer, execution=execution)
        self.drive.reconcile()
        execution.refresh_from_db()
        self.until_over(execution, visited=visited)

    def pass_until(self, execution: Execution, is_so: Callable[[list[str]], bool]) -> None:
        """Advance time until the log contains the text."""
        for _ in range(600):
            if is_so(self.drive.log(execution)):
                return
            self.drive.pass_time(1)
        raise AssertionError(self.drive.log(execution)[-8:])

    def run(self, tag: str = "", *, visited: bool = False) -> Execution:
        return self.until_over(self.drive.start(tag), visited=visited)


def _interleave(steps: Sequence[dict[str, Any]], between: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    pairs = zip_longest(steps, between)
    return [step for pair in pairs for step in pair if step is not None]


def _step(type_: str, identifier: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "step": {"type": type_, "identifier": identifier, "name": identifier, "timeout": "30m", "spec": spec}
    }
