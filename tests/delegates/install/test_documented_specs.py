"""Specs hold the documented names and values, in the documented order (R094–R131)."""

import json

import pytest

from delegates.install import DelegateSpecFiles, SpecRequest, TokenSecret, write_spec
from delegates.install.documents import ACTIONS, EXTENSIONS
from delegates.install.specs import SpecNetwork
from tests.delegates.install.spec_variants import ACCOUNT, ARN, BASE, SUBNETS, build_request

URL, LOGS = BASE.manager_url, f"{BASE.manager_url}/log-service/"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/ecsTaskExecutionRole"


def get_container(spec: DelegateSpecFiles) -> dict[str, object]:
    (only_container,) = spec.task_definition["containerDefinitions"]
    return dict(only_container)


def list_variables(spec: DelegateSpecFiles) -> list[tuple[str, str]]:
    return [(variable["name"], variable["value"]) for variable in get_container(spec)["environment"]]  # type: ignore[attr-defined]


def find_command(spec: DelegateSpecFiles, start: str) -> str:
    (match,) = [
        candidate.command
        for candidate in spec.list_commands("find", "create", "verify")
        if candidate.command.startswith(start)
    ]
    return match


def test_a_legacy_spec_for_ec2_is_the_documented_one() -> None:
    spec = write_spec(build_request("legacy", "EC2", hostname="ecs-host-1", tags=()))
    definition = json.loads(spec.files["task-spec.json"])
    assert definition["family"] == "harness-delegate-task-spec"
    assert (definition["cpu"], definition["memory"]) == ("1024", "2048")
    assert definition["requiresCompatibilities"] == ["EC2"]
    assert "networkMode" not in definition
    only_container = get_container(spec)
    assert (only_container["name"], only_container["hostname"]) == ("blue-delegate", "ecs-host-1")
    assert (only_container["cpu"], only_container["memory"], only_container["essential"]) == (1, 2048, True)
    assert only_container["portMappings"] == [{"hostPort": 8080, "containerPort": 8080, "protocol": "tcp"}]
    assert "logConfiguration" not in only_container
    assert list_variables(spec) == [
        ("ACCOUNT_ID", BASE.account_id),
        ("DELEGATE_TOKEN", BASE.token),
        ("DELEGATE_TYPE", "DOCKER"),
        ("INIT_SCRIPT", ""),
        ("DEPLOY_MODE", "KUBERNETES"),
        ("MANAGER_HOST_AND_PORT", URL),
        ("DELEGATE_NAME", "blue-delegate"),
        ("LOG_STREAMING_SERVICE_URL", LOGS),
        ("DELEGATE_TAGS", ""),
        ("NEXT_GEN", "true"),
    ]


def test_a_legacy_service_on_ec2_is_one_whole_command() -> None:
    spec = write_spec(build_request("legacy", "EC2", service="s1", cluster="c1"))
    assert find_command(spec, "aws ecs create-service") == (
        "aws ecs create-service --service-name s1 --task-definition harness-delegate-task-spec"
        " --cluster c1 --desired-count 1"
    )


def test_a_legacy_spec_for_fargate_is_the_documented_one() -> None:
    spec = write_spec(build_request("legacy", "FARGATE"))
    definition = json.loads(spec.files["task-spec.json"])
    assert (definition["cpu"], definition["memory"]) == ("1024", "6144")
    assert (definition["networkMode"], definition["requiresCompatibilities"]) == ("awsvpc", ["FARGATE"])
    assert definition["executionRoleArn"] == ROLE
    assert (get_container(spec)["name"], get_container(spec)["memory"]) == ("ecs-delegate-im", 2048)
    assert [name for name, _ in list_variables(spec)] == [
        "ACCOUNT_ID",
        "DELEGATE_TOKEN",
        "DELEGATE_TYPE",
        "LOG_STREAMING_SERVICE_URL",
        "DELEGATE_TAGS",
        "INIT_SCRIPT",
        "DEPLOY_MODE",
        "MANAGER_HOST_AND_PORT",
        "DELEGATE_NAME",
        "NEXT_GEN",
    ]
    assert json.loads(spec.files["service.json"]) == {
        "cluster": "harness-delegate-fargate-cluster",
        "serviceName": "blue-delegate",
        "taskDefinition": "harness-delegate-task-spec",
        "launchType": "FARGATE",
        "desiredCount": 1,
        "loadBalancers": [],
        "networkConfiguration": {
            "awsvpcConfiguration": {
                "subnets": list(SUBNETS),
                "securityGroups": ["sg-0a1b2c3d"],
                "assignPublicIp": "ENABLED",
            }
        },
        "platformVersion": "LATEST",
        "schedulingStrategy": "REPLICA",
        "enableECSManagedTags": True,
    }
    register_command = find_command(spec, "aws ecs register-task-definition")
    assert register_command == "aws ecs register-task-definition --cli-input-json file://task-spec.json"
    create_command = find_command(spec, "aws ecs create-service")
    assert create_command == "aws ecs create-service --cli-input-json file://service.json"


def test_a_v3_spec_for_ec2_is_the_documented_one() -> None:
    spec = write_spec(build_request("v3", "EC2", name="", tags=()))
    assert json.loads(spec.files["task-definition.json"]) == {
        "family": "harness-delegate-task",
        "networkMode": "bridge",
        "requiresCompatibilities": ["EC2"],
        "cpu": "1024",
        "memory": "2048",
        "containerDefinitions": [
            {
                "name": "harness-delegate",
                "image": BASE.image,
                "cpu": 1024,
                "memory": 2048,
                "essential": True,
                "environment": [
                    {"name": "HARNESS_ACCOUNT_ID", "value": BASE.account_id},
                    {"name": "HARNESS_TOKEN", "value": BASE.token},
                    {"name": "HARNESS_URL", "value": URL},
                    {"name": "HARNESS_NAME", "value": "ecs-delegate"},
                ],
                "logConfiguration": {
                    "logDriver": "awslogs",
                    "options": {
                        "awslogs-group": "/ecs/harness-delegate",
                        "awslogs-region": "us-east-1",
                        "awslogs-stream-prefix": "delegate",
                    },
                },
            }
        ],
    }
    assert [command.command for command in spec.list_commands("find", "create", "verify")] == [
        "aws ecs create-cluster --cluster-name harness-delegate-cluster",
        "aws logs create-log-group --log-group-name /ecs/harness-delegate --region us-east-1",
        "aws ecs register-task-definition --cli-input-json file://task-definition.json",
        "aws ecs create-service --cluster harness-delegate-cluster --service-name harness-delegate-service"
        " --task-definition harness-delegate-task --desired-count 1 --launch-type EC2",
        "aws ecs describe-services --cluster harness-delegate-cluster --services harness-delegate-service",
    ]


def test_a_v3_spec_for_fargate_is_the_documented_one() -> None:
    spec = write_spec(build_request("v3", "FARGATE", name="", tags=()))
    definition = json.loads(spec.files["fargate-task-definition.json"])
    assert definition["family"] == "harness-delegate-fargate-task"
    assert (definition["cpu"], definition["memory"]) == ("1024", "2048")
    assert (definition["networkMode"], definition["executionRoleArn"]) == ("awsvpc", ROLE)
    only_container = get_container(spec)
    assert set(only_container) == {"name", "image", "essential", "environment", "logConfiguration"}
    assert list_variables(spec)[-1] == ("HARNESS_NAME", "fargate-delegate")
    assert only_container["logConfiguration"]["options"]["awslogs-group"] == "/ecs/harness-delegate-fargate"  # type: ignore[index]
    assert json.loads(spec.files["fargate-service.json"]) == {
        "cluster": "harness-delegate-fargate-cluster",
        "serviceName": "harness-delegate-fargate-service",
        "taskDefinition": "harness-delegate-fargate-task",
        "launchType": "FARGATE",
        "desiredCount": 1,
        "networkConfiguration": {
            "awsvpcConfiguration": {
                "subnets": list(SUBNETS),
                "securityGroups": ["sg-0a1b2c3d"],
                "assignPublicIp": "ENABLED",
            }
        },
        "platformVersion": "LATEST",
        "schedulingStrategy": "REPLICA",
    }
    assert [command.command for command in spec.list_commands("find", "create", "verify")] == [
        'aws ec2 describe-subnets --query "Subnets[*].[SubnetId,VpcId,AvailabilityZone,CidrBlock]"'
        " --output table".replace('"', "'"),
        'aws ec2 describe-security-groups --query "SecurityGroups[*].[GroupId,GroupName,VpcId]"'
        " --output table".replace('"', "'"),
        "aws ecs create-cluster --cluster-name harness-delegate-fargate-cluster",
        "aws iam create-role --role-name ecsTaskExecutionRole"
        " --assume-role-policy-document file://trust-policy.json",
        "aws iam attach-role-policy --role-name ecsTaskExecutionRole"
        " --policy-arn arn:aws:iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy",
        "aws logs create-log-group --log-group-name /ecs/harness-delegate-fargate --region us-east-1",
        "aws ecs register-task-definition --cli-input-json file://fargate-task-definition.json",
        "aws ecs create-service --cli-input-json file://fargate-service.json",
        "aws ecs describe-services --cluster harness-delegate-fargate-cluster"
        " --services harness-delegate-fargate-service",
    ]


def test_what_is_not_known_yet_is_a_documented_placeholder_and_a_warning_says_so() -> None:
    minimal_request = SpecRequest(account_id="a", manager_url=URL, image="i:1")
    spec = write_spec(minimal_request)
    text = "".join(spec.files.values())
    for holder in (
        "PUT_YOUR_DELEGATE_TOKEN",
        "PUT_YOUR_AWS_ACCOUNT_ID",
        "PUT_YOUR_SUBNET_ID",
        "PUT_YOUR_SECURITY_GROUP_ID",
    ):
        assert holder in text
        assert any(holder in warning for warning in spec.warnings)


def test_a_token_of_secrets_manager_stands_in_no_file() -> None:
    spec = write_spec(build_request(secret=TokenSecret("EXISTING", arn=ARN)))
    assert get_container(spec)["secrets"] == [{"name": "HARNESS_TOKEN", "valueFrom": ARN}]
    assert BASE.token not in "".join(spec.files.values())
    policy = json.loads(spec.files["secret-policy.json"])
    assert policy["Statement"][0]["Action"] == "secretsmanager:GetSecretValue"
    assert ARN in policy["Statement"][0]["Resource"]


def test_a_secret_to_create_is_created_before_the_service_that_needs_it() -> None:
    spec = write_spec(build_request("legacy", "EC2", secret=TokenSecret("CREATE")))
    commands = [command.command for command in spec.list_commands("create")]
    (secret_index,) = [n for n, command in enumerate(commands) if "create-secret" in command]
    (policy_index,) = [n for n, command in enumerate(commands) if "put-role-policy" in command]
    (service_index,) = [n for n, command in enumerate(commands) if "create-service" in command]
    assert secret_index < service_index
    assert policy_index < service_index
    assert spec.files["delegate-token.txt"] == BASE.token
    assert spec.task_definition["executionRoleArn"] == ROLE
    assert BASE.token not in spec.files["task-spec.json"]


def test_a_hostname_is_left_out_on_fargate_and_a_warning_says_so() -> None:
    spec = write_spec(build_request("legacy", "FARGATE", hostname="h1"))
    assert "hostname" not in get_container(spec)
    assert any("h1" in warning for warning in spec.warnings)
    awsvpc = build_request("v3", "EC2", hostname="h1", network=SpecNetwork(SUBNETS, ("sg-1",), mode="awsvpc"))
    assert "hostname" not in get_container(write_spec(awsvpc))
    assert get_container(write_spec(build_request("v3", "EC2", hostname="h1")))["hostname"] == "h1"


def test_the_trust_policy_is_the_documented_one() -> None:
    assert json.loads(write_spec(build_request()).files["trust-policy.json"]) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "ecs-tasks.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }


def test_the_policy_of_deployments_has_the_documented_actions_and_no_other() -> None:
    (statement,) = json.loads(write_spec(build_request()).files["harness-ecs-policy.json"])["Statement"]
    assert tuple(statement["Action"]) == ACTIONS
    assert len(set(ACTIONS)) == 18
    statements = json.loads(write_spec(build_request()).files["harness-ecs-extended-policy.json"])[
        "Statement"
    ]
    extended_actions = [action for entry in statements for action in entry["Action"]]
    assert not set(extended_actions) & set(ACTIONS)
    assert {entry["Sid"] for entry in statements} == set(EXTENSIONS)


def test_a_newer_image_takes_a_new_revision_and_a_new_deployment() -> None:
    spec = write_spec(build_request("v3", "EC2"))
    assert [command.command for command in spec.list_commands("update")] == [
        "aws ecs register-task-definition --cli-input-json file://task-definition.json",
        "aws ecs update-service --cluster harness-delegate-cluster --service harness-delegate-service"
        " --task-definition harness-delegate-task --force-new-deployment",
    ]


def test_commands_stay_in_the_region_that_was_chosen() -> None:
    spec = write_spec(build_request(region="eu-central-1"))
    for command in spec.commands:
        assert ("--region eu-central-1" in command.command) == (not command.command.startswith("aws iam"))
    log = get_container(spec)["logConfiguration"]["options"]  # type: ignore[index]
    assert log["awslogs-region"] == "eu-central-1"


def test_arns_are_of_the_partition_of_the_region() -> None:
    spec = write_spec(build_request(region="us-gov-west-1"))
    assert spec.task_definition["executionRoleArn"].startswith("arn:aws-us-gov:iam::")
    assert any("arn:aws-us-gov:iam::aws:policy/" in command.command for command in spec.commands)


def test_a_role_for_the_delegate_itself_gets_both_policies_before_the_service_needs_it() -> None:
    spec = write_spec(build_request(task_role="delegate-work"))
    assert spec.task_definition["taskRoleArn"] == f"arn:aws:iam::{ACCOUNT}:role/delegate-work"
    commands = [command.command for command in spec.list_commands("create")]
    attach_commands = [
        command for command in commands if "attach-role-policy --role-name delegate-work" in command
    ]
    assert len(attach_commands) == 2
    assert commands.index(attach_commands[-1]) < len(commands) - 1
    assert not spec.list_commands("permissions")


@pytest.mark.parametrize("launch_type", ["EC2", "FARGATE"])
def test_a_chosen_size_is_the_task_s_and_the_container_s(launch_type: str) -> None:
    spec = write_spec(build_request("v3", launch_type, cpu=2048, memory_mib=8192))
    assert (spec.task_definition["cpu"], spec.task_definition["memory"]) == ("2048", "8192")
    if launch_type == "EC2":
        assert (get_container(spec)["cpu"], get_container(spec)["memory"]) == (2048, 8192)


@pytest.mark.parametrize("launch_type", ["EC2", "FARGATE"])
@pytest.mark.parametrize("flavour", ["legacy", "v3"])
def test_two_delegates_of_one_cluster_have_names_of_their_own(flavour: str, launch_type: str) -> None:
    specs = [
        write_spec(build_request(flavour, launch_type, name=name, own_names=True)) for name in ("a 1", "b")
    ]
    assert [spec.service["serviceName"] for spec in specs] == ["a-1-service", "b-service"]
    assert [spec.service["taskDefinition"] for spec in specs] == ["a-1-task", "b-task"]
    assert [spec.task_definition["family"] for spec in specs] == ["a-1-task", "b-task"]
    (update_command,) = [
        command.command for command in specs[0].list_commands("update") if "update-service" in command.command
    ]
    assert "--service a-1-service --task-definition a-1-task" in update_command
