"""What a service definition may say is passed on, put back by a rollback, or refused with what to do."""

from typing import Any

import pytest
import yaml

from connectors.models import FileNode
from deployments.execution.operations import roll_back_execution
from deployments.models import Execution, RollbackCheck
from steps.actions.ecs_service.update_fields import DEPLOYMENT_FIELDS, REVISION_FIELDS
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)

_OTHERWISE = ("events", "currentServiceDeployment", "currentServiceRevisions")
SERVICE_FILE = "/ECS Tutorial/CreateServiceRequest.yaml"


def _update_definition(**fields: Any) -> None:
    node = FileNode.objects.get(path=SERVICE_FILE)
    document = {**yaml.safe_load(node.content), **fields}
    node.content = yaml.safe_dump({key: value for key, value in document.items() if value is not ...})
    node.save()


def _roll_back(drive: Drive, execution: Execution) -> None:
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.pass_time(60, step=5)
    execution.refresh_from_db()
    drive.until_over(execution)


def _describe_service(drive: Drive) -> dict[str, Any]:
    """Return the ECS service without ids, with the settings of its primary deployment and revision."""
    service = drive.service()
    primary = service.pop("deployments")[0]
    arns = [revision["arn"] for revision in service["currentServiceRevisions"]]
    (revision,) = drive.call("ecs", "DescribeServiceRevisions", {"serviceRevisionArns": arns})[
        "serviceRevisions"
    ]
    shown_parts = {k: primary[k] for k in DEPLOYMENT_FIELDS if primary.get(k)}
    shown_parts |= {k: revision[k] for k in REVISION_FIELDS if revision.get(k)}
    return {**{k: v for k, v in service.items() if k not in _OTHERWISE}, **shown_parts}


def _tags(drive: Drive) -> dict[str, str]:
    arn = drive.service()["serviceArn"]
    tags = drive.call("ecs", "ListTagsForResource", {"resourceArn": arn})["tags"]
    return {tag["key"]: tag["value"] for tag in tags}


_AUTHORITY = "arn:aws:acm-pca:us-east-1:123456789012:certificate-authority/0f7c1c9e"
EVERY_OPTION = {
    "deploymentConfiguration": {
        "maximumPercent": 250,
        "minimumHealthyPercent": 50,
        "deploymentCircuitBreaker": {"enable": True, "rollback": False},
        "alarms": {"alarmNames": ["errors"], "enable": True, "rollback": True},
    },
    "healthCheckGracePeriodSeconds": 30,
    "enableExecuteCommand": False,
    "enableECSManagedTags": True,
    "propagateTags": "SERVICE",
    "availabilityZoneRebalancing": "DISABLED",
    "serviceConnectConfiguration": {
        "enabled": True,
        "namespace": "internal",
        "services": [
            {
                "portName": "http",
                "clientAliases": [
                    {
                        "port": 80,
                        "testTrafficRules": {"header": {"name": "x-test", "value": {"exact": "1"}}},
                    }
                ],
                "timeout": {"idleTimeoutSeconds": 60, "perRequestTimeoutSeconds": 15},
                "tls": {"issuerCertificateAuthority": {"awsPcaAuthorityArn": _AUTHORITY}},
            }
        ],
    },
    "vpcLatticeConfigurations": [
        {
            "roleArn": "arn:aws:iam::123456789012:role/ecsInfrastructure",
            "targetGroupArn": "arn:aws:vpc-lattice:us-east-1:123456789012:targetgroup/tg-0123456789abcdef0",
            "portName": "http",
        }
    ],
    "gatewayConnectors": [{"portName": "http", "healthCheck": {"healthCheckPath": "/health"}}],
    "monitoring": {"metricConfigurations": [{"metricNames": ["CPUUtilization"], "resolutionSeconds": 20}]},
    "serviceRegistries": [
        {"registryArn": "arn:aws:servicediscovery:us-east-1:123456789012:service/srv-utcrh6wavdkggqtk"}
    ],
}


@pytest.mark.parametrize("is_new", [True, False])
def test_every_option_reaches_a_new_service_and_an_updated_one(drive: Drive, is_new: bool) -> None:
    if not is_new:
        drive.run("1.27")
    _update_definition(**EVERY_OPTION)
    execution = drive.run("1.28")
    assert execution.outcome == "COMPLETED"
    settings = _describe_service(drive)
    for name, value in EVERY_OPTION.items():
        if name == "deploymentConfiguration":
            assert {key: settings[name][key] for key in value} == value
        else:
            assert settings[name] == value, name


def test_a_rollback_puts_back_every_option_also_those_that_were_not_there(drive: Drive) -> None:
    drive.run("1.27")
    before = _describe_service(drive)
    _update_definition(**EVERY_OPTION)
    execution = drive.run("1.28")
    _roll_back(drive, execution)
    assert execution.outcome == "ROLLED_BACK"
    after = _describe_service(drive)
    assert after.get("serviceConnectConfiguration", {"enabled": False}) == {"enabled": False}
    after.pop("serviceConnectConfiguration", None)
    assert after.pop("healthCheckGracePeriodSeconds") == 0, "as good as none"
    assert after.pop("monitoring") == {"metricConfigurations": []}, "as good as none"
    alarms = after["deploymentConfiguration"].pop("alarms")
    assert alarms == {"alarmNames": [], "enable": False, "rollback": False}, "as good as none"
    assert after == before


def test_tags_of_the_definition_are_given_to_a_service_and_others_stay(drive: Drive) -> None:
    _update_definition(tags=[{"key": "team", "value": "web"}])
    drive.run("1.27")
    assert _tags(drive) == {"team": "web"}
    arn = drive.service()["serviceArn"]
    drive.call("ecs", "TagResource", {"resourceArn": arn, "tags": [{"key": "cost", "value": "7"}]})
    _update_definition(tags=[{"key": "team", "value": "shop"}, {"key": "tier", "value": "gold"}])
    execution = drive.run("1.28")
    assert _tags(drive) == {"team": "shop", "tier": "gold", "cost": "7"}
    _roll_back(drive, execution)
    assert execution.outcome == "ROLLED_BACK"
    assert _tags(drive) == {"team": "web", "cost": "7"}
    (line,) = RollbackCheck.objects.filter(step__stage__execution=execution, subject__startswith="Tags of")
    assert line.passed


def test_a_rollback_leaves_tags_of_others_alone_and_its_checklist_too(drive: Drive) -> None:
    _update_definition(tags=[{"key": "team", "value": "web"}])
    drive.run("1.27")
    _update_definition(tags=[{"key": "team", "value": "shop"}])
    execution = drive.run("1.28")
    arn = drive.service()["serviceArn"]
    drive.call("ecs", "TagResource", {"resourceArn": arn, "tags": [{"key": "cost", "value": "7"}]})
    _roll_back(drive, execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-6:]
    assert _tags(drive) == {"team": "web", "cost": "7"}


def test_denied_tagging_is_a_line_in_the_log(drive: Drive) -> None:
    drive.run("1.27")
    _update_definition(tags=[{"key": "team", "value": "web"}])
    drive.sandbox.fault("denied", service="ecs", operation="TagResource")
    execution = drive.run("1.28")
    drive.sandbox.clear_faults()
    assert execution.outcome == "COMPLETED"
    assert any("ecs:TagResource" in line for line in drive.log(execution))


def test_what_aws_takes_only_when_it_creates_a_service_is_told(drive: Drive) -> None:
    drive.run("1.27")
    _update_definition(role="arn:aws:iam::123456789012:role/another")
    execution = drive.run("1.28")
    assert execution.outcome == "COMPLETED"
    (line,) = [line for line in drive.log(execution) if "AWS takes it only when" in line]
    assert line.startswith("role stays arn:aws:iam::")
    assert line.endswith("Delete Service myapp first to have arn:aws:iam::123456789012:role/another.")


def test_another_capacity_provider_is_asked_for_with_a_new_deployment(drive: Drive) -> None:
    spot = [{"capacityProvider": "FARGATE_SPOT", "weight": 1, "base": 0}]
    drive.run("1.27")
    _update_definition(launchType=..., capacityProviderStrategy=spot)
    execution = drive.run("1.28")
    assert execution.outcome == "COMPLETED"
    (update,) = [c.parsed_parameters for c in drive.calls(execution) if c.operation == "UpdateService"]
    assert update["forceNewDeployment"] is True
    update_run = drive.run("1.29")
    (update,) = [c.parsed_parameters for c in drive.calls(update_run) if c.operation == "UpdateService"]
    assert "forceNewDeployment" not in update


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"deploymentController": {"type": "CODE_DEPLOY"}}, "Remove deploymentController"),
        ({"deploymentController": {"type": "EXTERNAL"}}, "Remove deploymentController"),
        (
            {"deploymentConfiguration": {"strategy": "BLUE_GREEN"}},
            "set the strategy to ROLLING",
        ),
        (
            {"deploymentConfiguration": {"strategy": "LINEAR"}},
            "set the strategy to ROLLING",
        ),
        (
            {"deploymentConfiguration": {"strategy": "CANARY"}},
            "set the strategy to ROLLING",
        ),
        ({"services": []}, 'remove the "services" array'),
    ],
)
def test_what_cannot_be_deployed_is_refused_with_what_to_do(
    drive: Drive, fields: dict[str, Any], message: str
) -> None:
    _update_definition(**fields)
    execution = drive.run("1.27")
    assert execution.status == "FAILED"
    assert message in execution.failure["message"]
    assert drive.effects() == []


def test_a_task_definition_inside_the_service_definition_is_ignored_and_said_so(drive: Drive) -> None:
    _update_definition(taskDefinition="other:7", containerDefinitions=[{"name": "x"}])
    execution = drive.run("1.27")
    assert execution.outcome == "COMPLETED"
    log = drive.log(execution)
    assert any("taskDefinition: is ignored" in line for line in log)
    assert any("containerDefinitions: is ignored" in line for line in log)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"deploymentController": {"type": "CODE_DEPLOY"}}, "Deploy it with AWS CodeDeploy"),
        ({"deploymentController": {"type": "EXTERNAL"}}, "the tool that owns its task sets"),
        ({"deploymentConfiguration": {"strategy": "BLUE_GREEN"}}, "with the step EcsNativeDeploy"),
        ({"deploymentConfiguration": {"strategy": "CANARY"}}, "set its strategy to ROLLING in AWS"),
        ({"schedulingStrategy": "DAEMON"}, "another serviceName"),
    ],
)
def test_a_live_service_that_others_deploy_is_left_alone_with_what_to_do(
    drive: Drive, fields: dict[str, Any], message: str
) -> None:
    definition = {
        "family": "theirs",
        "containerDefinitions": [{"name": "web", "image": "library/nginx:1.27", "memory": 128}],
    }
    arn = drive.call("ecs", "RegisterTaskDefinition", definition)["taskDefinition"]["taskDefinitionArn"]
    count = {} if "schedulingStrategy" in fields else {"desiredCount": 0}
    if "deploymentConfiguration" in fields:
        fields = {**fields, "serviceConnectConfiguration": {"enabled": True}}
    place = {"cluster": "demo", "serviceName": "myapp"}
    drive.call("ecs", "CreateService", {**place, "taskDefinition": arn, **count, **fields})
    mark = drive.mark()
    execution = drive.run("1.27")
    assert execution.failure["code"] == "CONTROLLER_NOT_SUPPORTED"
    assert message in execution.failure["message"]
    assert "delete" not in execution.failure["message"].lower()
    assert drive.effects(mark) == []


def test_a_service_of_another_controller_is_deployed_after_it_was_handed_to_ecs(drive: Drive) -> None:
    _update_definition(deploymentController={"type": "ECS"})
    drive.run("1.27")
    change = {"cluster": "demo", "service": "myapp"}
    drive.call("ecs", "UpdateService", {**change, "deploymentController": {"type": "EXTERNAL"}})
    refused = drive.run("1.28")
    assert "hand it to ECS with the step EcsChangeController" in refused.failure["message"]
    drive.call("ecs", "UpdateService", {**change, "deploymentController": {"type": "ECS"}})
    execution = drive.run("1.28")
    assert execution.outcome == "COMPLETED", execution.failure
