"""The commands of AWS CLI v2 that create, check, update and diagnose a delegate, as documented."""

import shlex
from collections.abc import Iterator
from typing import Final

from delegates.specs import iam
from delegates.specs.definitions import service_definition
from delegates.specs.plan import Plan
from delegates.specs.spec import Command, Group

TOKEN_FILE: Final = "delegate-token.txt"  # noqa: S105
_SUBNETS = "Subnets[*].[SubnetId,VpcId,AvailabilityZone,CidrBlock]"
_GROUPS = "SecurityGroups[*].[GroupId,GroupName,VpcId]"


def commands(plan: Plan) -> list[Command]:
    """Every command, each group in the order to run it."""
    return [
        *_find(plan),
        *_permissions(plan),
        *_create(plan),
        *_verify(plan),
        *_update(plan),
        *_diagnose(plan),
    ]


def aws(plan: Plan, *words: str) -> str:
    """A command of the AWS CLI, every value one word of the shell; in the region that somebody chose."""
    region = ["--region", plan.request.region] if plan.request.region and words[0] != "iam" else []
    return shlex.join(["aws", *words, *region])


def log_group_command(plan: Plan, group: str) -> str:
    """Makes a log group, always with its region: it has to be the one of the task definition (R113)."""
    return shlex.join(["aws", "logs", "create-log-group", "--log-group-name", group, "--region", plan.region])


def stopped_reason_command(plan: Plan) -> str:
    """Asks why the last task stopped (R142): the inner command finds it, the outer one describes it."""
    listed = aws(
        plan,
        *("ecs", "list-tasks", "--cluster", plan.cluster, "--service-name", plan.service),
        *("--desired-status", "STOPPED", "--query", "taskArns[0]", "--output", "text"),
    )
    before = shlex.join(["aws", "ecs", "describe-tasks", "--cluster", plan.cluster, "--tasks"])
    region = ["--region", plan.request.region] if plan.request.region else []
    after = shlex.join([*region, "--query", "tasks[0].stoppedReason"])
    return f'{before} "$({listed})" {after}'


def restart_command(plan: Plan) -> str:
    """Starts the service's tasks anew (R141)."""
    service = ("--cluster", plan.cluster, "--service", plan.service)
    return aws(plan, "ecs", "update-service", *service, "--force-new-deployment")


def events_command(plan: Plan) -> str:
    """Asks what ECS said about the service last."""
    service = ("--cluster", plan.cluster, "--services", plan.service)
    return aws(plan, "ecs", "describe-services", *service, "--query", "services[0].events[:10].message")


def routes_command(plan: Plan) -> str:
    """Asks where the subnets' packets go (T22)."""
    subnets = ",".join(plan.subnets)
    return aws(
        plan,
        *("ec2", "describe-route-tables", "--filters", f"Name=association.subnet-id,Values={subnets}"),
        *("--query", "RouteTables[*].Routes[*].[DestinationCidrBlock,GatewayId,NatGatewayId]"),
    )


def egress_command(plan: Plan) -> str:
    """Asks what the security groups let out."""
    query = "SecurityGroups[*].[GroupId,IpPermissionsEgress]"
    words = ("ec2", "describe-security-groups", "--group-ids", *plan.security_groups)
    return aws(plan, *words, "--query", query)


def _find(plan: Plan) -> Iterator[Command]:
    if not plan.request.is_awsvpc:
        return
    table = ("--output", "table")
    subnets = aws(plan, "ec2", "describe-subnets", "--query", _SUBNETS, *table)
    yield Command("Find your subnets", subnets, "find")
    groups = aws(plan, "ec2", "describe-security-groups", "--query", _GROUPS, *table)
    yield Command("Find your security groups", groups, "find")


def _permissions(plan: Plan) -> Iterator[Command]:
    """Policies for deployments; with a task role they are needed before the service is."""
    group: Group = "create" if plan.request.task_role else "permissions"
    listed = (
        ("Create the policy that deployments need", iam.POLICY_NAME, iam.POLICY_FILE),
        ("Create the policy of further steps", iam.EXTENDED_NAME, iam.EXTENDED_FILE),
    )
    for title, name, file in listed:
        words = ("iam", "create-policy", "--policy-name", name, "--policy-document", f"file://{file}")
        yield Command(title, aws(plan, *words), group)


def _create(plan: Plan) -> Iterator[Command]:
    request = plan.request
    yield Command("Create the cluster", aws(plan, "ecs", "create-cluster", "--cluster-name", plan.cluster))
    if request.secret.kind == "CREATE":
        words = ("--name", request.secret.name, "--secret-string", f"file://{TOKEN_FILE}")
        title = "Store the token in Secrets Manager"
        yield Command(title, aws(plan, "secretsmanager", "create-secret", *words))
    if plan.needs_execution_role:
        yield from _execution_role(plan)
    if request.task_role:
        yield from _task_role(plan)
    if plan.log_group:
        yield Command("Create the log group", log_group_command(plan, plan.log_group))
    yield Command("Register the task definition", _register(plan))
    yield Command("Create the service", _create_service(plan))


def _role(plan: Plan, name: str, title: str) -> Command:
    trust = ("--assume-role-policy-document", f"file://{iam.TRUST_FILE}")
    return Command(title, aws(plan, "iam", "create-role", "--role-name", name, *trust))


def _execution_role(plan: Plan) -> Iterator[Command]:
    role = plan.request.execution_role
    yield _role(plan, role, "Create the execution role")
    policy = f"arn:{plan.partition}:iam::aws:policy/{iam.EXECUTION_POLICY}"
    words = ("iam", "attach-role-policy", "--role-name", role, "--policy-arn", policy)
    yield Command("Let it pull images and write logs", aws(plan, *words))
    if plan.request.uses_secret:
        document = ("--policy-document", f"file://{iam.SECRET_FILE}")
        named = ("--role-name", role, "--policy-name", iam.SECRET_POLICY_NAME)
        yield Command("Let it read the token", aws(plan, "iam", "put-role-policy", *named, *document))


def _task_role(plan: Plan) -> Iterator[Command]:
    role = plan.request.task_role
    yield _role(plan, role, "Create the role that the delegate works with")
    for name in (iam.POLICY_NAME, iam.EXTENDED_NAME):
        policy = f"arn:{plan.partition}:iam::{plan.aws_account}:policy/{name}"
        words = ("iam", "attach-role-policy", "--role-name", role, "--policy-arn", policy)
        yield Command(f"Give it the policy {name}", aws(plan, *words))


def _register(plan: Plan) -> str:
    file = f"file://{plan.preset.task_file}"
    return aws(plan, "ecs", "register-task-definition", "--cli-input-json", file)


def _create_service(plan: Plan) -> str:
    if plan.has_service_file:
        file = f"file://{plan.preset.service_file}"
        return aws(plan, "ecs", "create-service", "--cli-input-json", file)
    return aws(plan, "ecs", "create-service", *_service_flags(plan))


def _service_flags(plan: Plan) -> list[str]:
    """The service definition as flags, in the order of each flavour's documents (R115, T01)."""
    service = service_definition(plan)
    flags = {
        "--cluster": service["cluster"],
        "--service-name": service["serviceName"],
        "--task-definition": service["taskDefinition"],
        "--desired-count": str(service["desiredCount"]),
    }
    if plan.request.flavour == "legacy":
        order = ("--service-name", "--task-definition", "--cluster", "--desired-count")
        flags = {flag: flags[flag] for flag in order}
    if launch_type := service.get("launchType"):
        flags["--launch-type"] = launch_type
    return [word for flag, value in flags.items() for word in (flag, value)]


def _verify(plan: Plan) -> Iterator[Command]:
    words = ("ecs", "describe-services", "--cluster", plan.cluster, "--services", plan.service)
    yield Command("See whether the service runs", aws(plan, *words), "verify")


def _update(plan: Plan) -> Iterator[Command]:
    yield Command("Register the task definition with the newer image", _register(plan), "update")
    words = ("--cluster", plan.cluster, "--service", plan.service, "--task-definition", plan.family)
    changed = aws(plan, "ecs", "update-service", *words, "--force-new-deployment")
    yield Command("Let the service use it", changed, "update")


def _diagnose(plan: Plan) -> Iterator[Command]:
    yield Command("Read why the last task stopped", stopped_reason_command(plan), "diagnose")
    if plan.log_group:
        tail = aws(plan, "logs", "tail", plan.log_group, "--follow")
        yield Command("Read the delegate's log", tail, "diagnose")
    yield Command("Read what ECS says about the service", events_command(plan), "diagnose")
