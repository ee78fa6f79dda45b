"""Blue/green, linear and canary deployments that ECS itself shifts, on whatever endpoint."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.balancer import Balancer
from tests.contract.endpoint import Aws, states

ROLE = "arn:aws:iam::123456789012:role/ecsInfrastructureRoleForLoadBalancers"
PAUSE = {"targetType": "PAUSE", "lifecycleStages": ["POST_TEST_TRAFFIC_SHIFT"]}
STAGES = [
    "PRE_SCALE_UP",
    "SCALE_UP",
    "POST_SCALE_UP",
    "TEST_TRAFFIC_SHIFT",
    "POST_TEST_TRAFFIC_SHIFT",
    "PRODUCTION_TRAFFIC_SHIFT",
    "POST_PRODUCTION_TRAFFIC_SHIFT",
    "BAKE_TIME",
    "CLEAN_UP",
]
ADVANCED = "ECS API, AdvancedConfiguration"
STAGE_SOURCE = "ECS API, ServiceDeployment: lifecycleStage"


@dataclass(frozen=True)
class Managed:
    """A service whose traffic ECS shifts by a production and a test rule."""

    balancer: Balancer
    production: str
    test: str

    @property
    def aws(self) -> Aws:
        return self.balancer.aws

    def attached(self) -> list[dict[str, Any]]:
        advanced = {
            "alternateTargetGroupArn": self.balancer.green,
            "productionListenerRule": self.production,
            "testListenerRule": self.test,
            "roleArn": ROLE,
        }
        return [{**entry, "advancedConfiguration": advanced} for entry in self.balancer.attached()]

    def create(self, strategy: str, **configuration: Any) -> None:
        """Create the service, wait for its first deployment, and set the strategy of the next ones."""
        self.aws.create(loadBalancers=self.attached(), deploymentConfiguration=configure("BLUE_GREEN"))
        self.aws.until_completed()
        self.aws.update(deploymentConfiguration=configure(strategy, **configuration))

    def weights(self, rule: str = "") -> dict[str, int]:
        """Return the weights of the production rule by "blue" and "green"."""
        arn = rule or self.production
        (answer,) = self.aws.client("elbv2").describe_rules(RuleArns=[arn])["Rules"]
        groups = answer["Actions"][0]["ForwardConfig"]["TargetGroups"]
        names = {self.balancer.blue: "blue", self.balancer.green: "green"}
        return {names[group["TargetGroupArn"]]: group["Weight"] for group in groups}

    def deployment(self, arn: str = "") -> dict[str, Any]:
        arn = arn or self.aws.service()["currentServiceDeployment"]
        (answer,) = self.aws.ecs.describe_service_deployments(serviceDeploymentArns=[arn])[
            "serviceDeployments"
        ]
        return dict(answer)

    def until_status(self, arn: str, status: str) -> dict[str, Any]:
        self.aws.until(lambda: self.deployment(arn)["status"] == status, status, seconds=1800)
        return self.deployment(arn)

    def roll(self, tag: str = "v2") -> str:
        """Start a deployment, and return its ARN."""
        return str(self.aws.roll(tag)["currentServiceDeployment"])

    def until_paused(self, arn: str) -> str:
        """Wait for a pause, and return its hook ID."""

        def find_pause() -> str:
            details = self.deployment(arn).get("lifecycleHookDetails", [])
            return next((d["hookId"] for d in details if d["status"] == "AWAITING_ACTION"), "")

        return self.aws.until(find_pause, "the pause")

    def record(self, arn: str, read: Callable[[Mapping[str, Any]], Any], *, step: float = 1) -> list[Any]:
        """Return the different values until the deployment has ended."""
        values: list[Any] = []
        for _ in range(3000):
            answer = self.deployment(arn)
            if not values or values[-1] != read(answer):
                values.append(read(answer))
            if answer["status"] not in ("PENDING", "IN_PROGRESS"):
                return values
            self.aws.advance(step)
        raise AssertionError(f"no end after {values}")


def configure(strategy: str, **configuration: Any) -> dict[str, Any]:
    return {"strategy": strategy, "bakeTimeInMinutes": 0, **configuration}


def get_stage(answer: Mapping[str, Any]) -> Any:
    return answer["lifecycleStage"]


def get_weight(answer: Mapping[str, Any]) -> Any:
    return answer["targetServiceRevision"]["requestedProductionTrafficWeight"]


@pytest.fixture
def managed(balancer: Balancer) -> Managed:
    elb = balancer.aws.client("elbv2")
    rules = [
        elb.create_rule(
            ListenerArn=balancer.listener,
            Priority=priority,
            Conditions=[{"Field": "path-pattern", "Values": [path]}],
            Actions=[{"Type": "forward", "TargetGroupArn": balancer.blue}],
        )["Rules"][0]["RuleArn"]
        for priority, path in ((1, "/test/*"), (2, "/*"))
    ]
    return Managed(balancer, production=rules[1], test=rules[0])


@pytest.mark.source(STAGE_SOURCE)
def test_a_blue_green_deployment_passes_its_stages_and_the_weights_are_swapped(managed: Managed) -> None:
    managed.create("BLUE_GREEN")
    assert managed.weights() == {"blue": 100, "green": 0}
    arn = managed.roll()
    assert managed.record(arn, get_stage) == STAGES
    assert managed.deployment(arn)["status"] == "SUCCESSFUL"
    assert managed.weights() == managed.weights(managed.test) == {"blue": 0, "green": 100}
    assert len(managed.balancer.health(managed.balancer.green)) == 1
    managed.until_status(managed.roll("v3"), "SUCCESSFUL")
    assert managed.weights() == {"blue": 100, "green": 0}


@pytest.mark.source("ECS API, LinearConfiguration: stepPercent, stepBakeTimeInMinutes")
def test_a_linear_deployment_shifts_equal_parts(managed: Managed) -> None:
    managed.create("LINEAR", linearConfiguration={"stepPercent": 40.0, "stepBakeTimeInMinutes": 1})
    assert managed.record(managed.roll(), get_weight) == [0.0, 40.0, 80.0, 100.0]
    assert managed.weights() == {"blue": 0, "green": 100}


@pytest.mark.source("ECS API, CanaryConfiguration: canaryPercent, canaryBakeTimeInMinutes")
def test_a_canary_deployment_shifts_a_part_and_then_the_rest(managed: Managed) -> None:
    managed.create("CANARY", canaryConfiguration={"canaryPercent": 12.5, "canaryBakeTimeInMinutes": 1})
    assert managed.record(managed.roll(), get_weight) == [0.0, 12.5, 100.0]


@pytest.mark.source("ECS developer guide, bake time of blue/green deployments")
def test_both_revisions_run_until_the_bake_time_is_over(managed: Managed) -> None:
    managed.create("BLUE_GREEN", bakeTimeInMinutes=2)
    arn = managed.roll()
    managed.aws.until(lambda: get_stage(managed.deployment(arn)) == "BAKE_TIME", "the bake time")
    counts = [r["runningTaskCount"] for r in managed.deployment(arn)["sourceServiceRevisions"]]
    assert (counts, managed.deployment(arn)["targetServiceRevision"]["runningTaskCount"]) == ([1], 1)
    managed.aws.advance(100)
    assert get_stage(managed.deployment(arn)) == "BAKE_TIME"
    managed.until_status(arn, "SUCCESSFUL")
    assert states(managed.aws.service()["deployments"]) == [("PRIMARY", "COMPLETED")]


@pytest.mark.source("ECS developer guide, pause hooks; ECS API, ContinueServiceDeployment")
def test_a_pause_holds_the_deployment_until_it_is_continued(managed: Managed) -> None:
    managed.create("BLUE_GREEN", lifecycleHooks=[PAUSE])
    arn = managed.roll()
    hook = managed.until_paused(arn)
    managed.aws.advance(300)
    deployment = managed.deployment(arn)
    assert (deployment["status"], get_stage(deployment)) == ("IN_PROGRESS", "POST_TEST_TRAFFIC_SHIFT")
    assert managed.weights() == {"blue": 100, "green": 0}
    with pytest.raises(ClientError, match="InvalidParameterException"):
        managed.aws.ecs.continue_service_deployment(serviceDeploymentArn=arn, hookId="ecs-pause-other")
    managed.aws.ecs.continue_service_deployment(serviceDeploymentArn=arn, hookId=hook, action="CONTINUE")
    managed.until_status(arn, "SUCCESSFUL")
    with pytest.raises(ClientError, match="InvalidParameterException"):
        managed.aws.ecs.continue_service_deployment(serviceDeploymentArn=arn, hookId=hook)


@pytest.mark.source("ECS API, ContinueServiceDeployment: action ROLLBACK")
def test_a_pause_can_end_in_a_rollback(managed: Managed) -> None:
    managed.create("BLUE_GREEN", lifecycleHooks=[PAUSE])
    arn = managed.roll()
    hook = managed.until_paused(arn)
    managed.aws.ecs.continue_service_deployment(serviceDeploymentArn=arn, hookId=hook, action="ROLLBACK")
    deployment = managed.until_status(arn, "ROLLBACK_SUCCESSFUL")
    assert deployment["rollback"]["serviceRevisionArn"] == deployment["sourceServiceRevisions"][0]["arn"]
    assert managed.weights() == managed.weights(managed.test) == {"blue": 100, "green": 0}


@pytest.mark.source("ECS API, DeploymentLifecycleHookTimeoutConfiguration")
@pytest.mark.parametrize(
    ("action", "status"), [("ROLLBACK", "ROLLBACK_SUCCESSFUL"), ("CONTINUE", "SUCCESSFUL")]
)
def test_a_pause_that_nobody_ends_times_out(managed: Managed, action: str, status: str) -> None:
    timeout = {"timeoutInMinutes": 1, "action": action}
    managed.create("BLUE_GREEN", lifecycleHooks=[{**PAUSE, "timeoutConfiguration": timeout}])
    deployment = managed.until_status(managed.roll(), status)
    assert [d["status"] for d in deployment["lifecycleHookDetails"]] == ["TIMED_OUT"]


@pytest.mark.source("ECS developer guide, Lambda hooks")
@pytest.mark.needs_sandbox("a function that fails")
def test_a_function_that_fails_rolls_back(managed: Managed) -> None:
    function = "arn:aws:lambda:us-east-1:123456789012:function:smoke-test-fails"
    hook = {"hookTargetArn": function, "roleArn": ROLE, "lifecycleStages": ["POST_SCALE_UP"]}
    managed.create("BLUE_GREEN", lifecycleHooks=[hook])
    deployment = managed.until_status(managed.roll(), "ROLLBACK_SUCCESSFUL")
    (detail,) = deployment["lifecycleHookDetails"]
    assert (detail["targetType"], detail["targetArn"], detail["status"]) == ("AWS_LAMBDA", function, "FAILED")


@pytest.mark.source("ECS API, DeploymentLifecycleHook: PRODUCTION_TRAFFIC_SHIFT runs at every step")
@pytest.mark.needs_sandbox("a function that succeeds")
def test_a_function_runs_at_every_shift(managed: Managed) -> None:
    function = "arn:aws:lambda:us-east-1:123456789012:function:smoke-test"
    stages = ["PRODUCTION_TRAFFIC_SHIFT"]
    hook = {"hookTargetArn": function, "roleArn": ROLE, "lifecycleStages": stages}
    steps = {"stepPercent": 50.0, "stepBakeTimeInMinutes": 0}
    managed.create("LINEAR", lifecycleHooks=[hook], linearConfiguration=steps)
    deployment = managed.until_status(managed.roll(), "SUCCESSFUL")
    assert [d["status"] for d in deployment["lifecycleHookDetails"]] == ["SUCCEEDED"] * 2


@pytest.mark.source("ECS developer guide, CloudWatch alarms and deployment failures")
def test_an_alarm_in_the_bake_time_gives_the_traffic_back(managed: Managed) -> None:
    cloudwatch = managed.aws.client("cloudwatch")
    metric = {"Namespace": "Test", "MetricName": "Errors", "Period": 60, "EvaluationPeriods": 1}
    rule = {"Threshold": 1, "ComparisonOperator": "GreaterThanThreshold", "Statistic": "Sum"}
    cloudwatch.put_metric_alarm(AlarmName="errors", **metric, **rule)
    alarms = {"alarmNames": ["errors"], "enable": True, "rollback": True}
    managed.create("BLUE_GREEN", bakeTimeInMinutes=10, alarms=alarms)
    arn = managed.roll()
    managed.aws.until(lambda: get_stage(managed.deployment(arn)) == "BAKE_TIME", "the bake time")
    assert managed.deployment(arn)["alarms"]["status"] == "MONITORING"
    assert managed.weights() == {"blue": 0, "green": 100}
    cloudwatch.set_alarm_state(AlarmName="errors", StateValue="ALARM", StateReason="test")
    deployment = managed.until_status(arn, "ROLLBACK_SUCCESSFUL")
    assert (deployment["alarms"]["status"], deployment["alarms"]["triggeredAlarmNames"]) == (
        "TRIGGERED",
        ["errors"],
    )
    assert managed.weights() == {"blue": 100, "green": 0}


@pytest.mark.source("ECS developer guide, stopping service deployments")
def test_a_stop_gives_the_traffic_back_and_removes_the_new_tasks(managed: Managed) -> None:
    managed.create("CANARY", canaryConfiguration={"canaryPercent": 10.0, "canaryBakeTimeInMinutes": 30})
    before = managed.aws.service()["taskDefinition"]
    arn = managed.roll()
    managed.aws.until(lambda: get_weight(managed.deployment(arn)) == 10.0, "the canary")
    assert managed.weights() == {"blue": 90, "green": 10}
    managed.aws.ecs.stop_service_deployment(serviceDeploymentArn=arn, stopType="ROLLBACK")
    managed.until_status(arn, "ROLLBACK_SUCCESSFUL")
    assert managed.weights() == {"blue": 100, "green": 0}
    assert managed.aws.service()["taskDefinition"] == before
    assert {task["taskDefinitionArn"] for task in managed.aws.tasks()} == {before}


@pytest.mark.source("ECS API, ServiceDeployment: SCALE_UP")
@pytest.mark.needs_sandbox("an image that crashes")
def test_no_traffic_reaches_tasks_that_crash(managed: Managed) -> None:
    breaker = {"enable": True, "rollback": True}
    managed.create("BLUE_GREEN", deploymentCircuitBreaker=breaker)
    arn = managed.roll("crash")
    weights = managed.record(arn, lambda answer: managed.weights()["green"])
    assert weights == [0]
    assert (
        managed.until_status(arn, "ROLLBACK_SUCCESSFUL")["deploymentCircuitBreaker"]["status"] == "TRIGGERED"
    )


@pytest.mark.source("ECS developer guide, service deployment states")
def test_a_newer_update_supersedes_a_deployment_and_reconciles_first(managed: Managed) -> None:
    managed.create("BLUE_GREEN", bakeTimeInMinutes=1)
    first = managed.roll()
    managed.aws.until(lambda: get_stage(managed.deployment(first)) == "POST_SCALE_UP", "new tasks", step=1)
    second = managed.roll("v3")
    assert managed.deployment(first)["status"] == "STOPPED"
    assert managed.record(second, get_stage)[0] == "RECONCILE_SERVICE"
    assert managed.until_status(second, "SUCCESSFUL")["targetServiceRevision"]["runningTaskCount"] == 1


@pytest.mark.source(ADVANCED)
@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        (
            configure("BLUE_GREEN", lifecycleHooks=[{**PAUSE, "lifecycleStages": ["TEST_TRAFFIC_SHIFT"]}]),
            "PAUSE",
        ),
        (configure("LINEAR", linearConfiguration={"stepPercent": 2.0}), "stepPercent"),
        (configure("CANARY", canaryConfiguration={"canaryBakeTimeInMinutes": 2000}), "canaryBake"),
        (configure("BLUE_GREEN", canaryConfiguration={"canaryPercent": 5.0}), "CANARY"),
        (configure("BLUE_GREEN", lifecycleHooks=[{"lifecycleStages": ["PRE_SCALE_UP"]}]), "hookTargetArn"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(
    managed: Managed, configuration: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        managed.aws.create(loadBalancers=managed.attached(), deploymentConfiguration=configuration)


@pytest.mark.source(ADVANCED)
def test_a_strategy_needs_a_second_target_group(managed: Managed) -> None:
    plain = managed.balancer.attached()
    with pytest.raises(ClientError, match="advancedConfiguration or Service Connect"):
        managed.aws.create(loadBalancers=plain, deploymentConfiguration=configure("BLUE_GREEN"))


@pytest.mark.source("ECS developer guide, migrating from rolling to blue/green deployments")
def test_a_rolling_service_becomes_blue_green_in_place_and_back(managed: Managed) -> None:
    managed.aws.create(loadBalancers=managed.balancer.attached())
    managed.aws.until_completed()
    answer = managed.aws.update(
        loadBalancers=managed.attached(), deploymentConfiguration=configure("BLUE_GREEN")
    )
    managed.until_status(answer["currentServiceDeployment"], "SUCCESSFUL")
    assert managed.weights() == {"blue": 0, "green": 100}
    managed.aws.update(deploymentConfiguration={"strategy": "ROLLING"})
    managed.until_status(managed.roll("v2"), "SUCCESSFUL")
    assert "healthy" in managed.balancer.health(managed.balancer.green)
    assert managed.weights() == {"blue": 0, "green": 100}
