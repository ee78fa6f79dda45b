"""Commands of AWS CLI v2 that create, update and diagnose a delegate."""

import shlex
from collections.abc import Iterator

from delegates.install import documents
from delegates.install.documents import build_service_definition
from delegates.install.plan import SpecPlan
from delegates.install.specs import TOKEN_FILE, CommandGroup, ShellCommand

_SUBNETS = "Subnets[*].[SubnetId,VpcId,AvailabilityZone,CidrBlock]"
_GROUPS = "SecurityGroups[*].[GroupId,GroupName,VpcId]"


def list_aws_commands(plan: SpecPlan) -> list[ShellCommand]:
    """Return every command, each group in the order to run it."""
    return [
        *_find(plan),
        *_list_mirror_commands(plan),
        *_list_permission_commands(plan),
        *_list_create_commands(plan),
        *_list_verify_commands(plan),
        *_list_update_commands(plan),
        *_list_diagnose_commands(plan),
    ]


def build_aws_command(plan: SpecPlan, *words: str) -> str:
    """Return a command of the AWS CLI for the chosen region, every value quoted for the shell."""
    region = ["--region", plan.request.region] if plan.request.region and words[0] != "iam" else []
    return shlex.join(["aws", *words, *region])


def build_log_group_command(plan: SpecPlan, group: str) -> str:
    """Return the command that creates a log group in the region of the task definition (R113)."""
    return shlex.join(["aws", "logs", "create-log-group", "--log-group-name", group, "--region", plan.region])


def build_stopped_reason_command(plan: SpecPlan) -> str:
    """Return the command for the stop reason of the last task (R142); the inner command finds the task."""
    listed = build_aws_command(
        plan,
        *("ecs", "list-tasks", "--cluster", plan.cluster, "--service-name", plan.service),
        *("--desired-status", "STOPPED", "--query", "taskArns[0]", "--output", "text"),
    )
    before = shlex.join(["aws", "ecs", "describe-tasks", "--cluster", plan.cluster, "--tasks"])
    region = ["--region", plan.request.region] if plan.request.region else []
    after = shlex.join([*region, "--query", "tasks[0].stoppedReason"])
    return f'{before} "$({listed})" {after}'


def build_execution_policy_command(plan: SpecPlan, role: str) -> str:
    """Return the command that lets an execution role pull images and write logs."""
    policy = f"arn:{plan.partition}:iam::aws:policy/{documents.EXECUTION_POLICY}"
    words = ("iam", "attach-role-policy", "--role-name", role, "--policy-arn", policy)
    return build_aws_command(plan, *words)


def build_restart_command(plan: SpecPlan) -> str:
    """Return the command that restarts the service's tasks (R141)."""
    service = ("--cluster", plan.cluster, "--service", plan.service)
    return build_aws_command(plan, "ecs", "update-service", *service, "--force-new-deployment")


def build_events_command(plan: SpecPlan) -> str:
    """Return the command that shows the latest ECS events of a service."""
    service = ("--cluster", plan.cluster, "--services", plan.service)
    return build_aws_command(
        plan, "ecs", "describe-services", *service, "--query", "services[0].events[:10].message"
    )


def build_routes_command(plan: SpecPlan) -> str:
    """Return the command that shows the route tables of the subnets (T22)."""
    subnets = ",".join(plan.subnets)
    return build_aws_command(
        plan,
        *("ec2", "describe-route-tables", "--filters", f"Name=association.subnet-id,Values={subnets}"),
        *("--query", "RouteTables[*].Routes[*].[DestinationCidrBlock,GatewayId,NatGatewayId]"),
    )


def build_egress_command(plan: SpecPlan) -> str:
    """Return the command that shows the egress rules of the security groups."""
    query = "SecurityGroups[*].[GroupId,IpPermissionsEgress]"
    words = ("ec2", "describe-security-groups", "--group-ids", *plan.security_groups)
    return build_aws_command(plan, *words, "--query", query)


def list_removal_commands(plan: SpecPlan, stack: str) -> list[ShellCommand]:
    """Return the commands that remove a delegate that was deployed with a stack, in their order."""
    service = ("--cluster", plan.cluster)
    deleted = build_aws_command(plan, "ecs", "delete-service", *service, "--service", plan.service, "--force")
    waits = build_aws_command(plan, "ecs", "wait", "services-inactive", *service, "--services", plan.service)
    named = ("--stack-name", stack)
    unstacked = build_aws_command(plan, "cloudformation", "delete-stack", *named)
    ends = build_aws_command(plan, "cloudformation", "wait", "stack-delete-complete", *named)
    return [
        ShellCommand("Stop the tasks and delete the ECS service", deleted),
        ShellCommand("Wait until it is gone", waits),
        ShellCommand("Delete the stack", unstacked),
        ShellCommand("Wait until it is gone too", ends),
    ]


def _find(plan: SpecPlan) -> Iterator[ShellCommand]:
    if not plan.request.is_awsvpc:
        return
    table = ("--output", "table")
    subnets = build_aws_command(plan, "ec2", "describe-subnets", "--query", _SUBNETS, *table)
    yield ShellCommand("Find your subnets", subnets, "find")
    groups = build_aws_command(plan, "ec2", "describe-security-groups", "--query", _GROUPS, *table)
    yield ShellCommand("Find your security groups", groups, "find")


def _list_mirror_commands(plan: SpecPlan) -> Iterator[ShellCommand]:
    """Return the commands that copy the image to the account's registry."""
    if not plan.is_mirrored:
        return
    source, repository = plan.request.image, plan.source_image.repository
    words = ("ecr", "create-repository", "--repository-name", repository)
    created = build_aws_command(plan, *words, "--image-tag-mutability", "IMMUTABLE")
    yield ShellCommand("Create the repository", created, "mirror")
    password = build_aws_command(plan, "ecr", "get-login-password")
    login = shlex.join(["docker", "login", "--username", "AWS", "--password-stdin", plan.registry])
    yield ShellCommand("Sign in to the registry", f"{password} | {login}", "mirror")
    if not plan.source_image.is_local:
        # Tasks run on x86-64 unless their definition says otherwise.
        pull = shlex.join(["docker", "pull", "--platform", "linux/amd64", source])
        yield ShellCommand("Pull the image", pull, "mirror")
    tag = shlex.join(["docker", "tag", source, plan.image])
    yield ShellCommand("Name it after the registry", tag, "mirror")
    yield ShellCommand("Push the image", shlex.join(["docker", "push", plan.image]), "mirror")


def _list_permission_commands(plan: SpecPlan) -> Iterator[ShellCommand]:
    """Return the commands for policies of deployments; a new task role needs them before the service."""
    request = plan.request
    is_new = bool(request.task_role) and not request.task_role_exists
    group: CommandGroup = "create" if is_new else "permissions"
    if not (request.task_role and request.uses):
        yield from _list_policy_commands(plan, group)
    if request.task_role_exists:
        yield from _list_task_policy_commands(plan, group)


def _list_policy_commands(plan: SpecPlan, group: CommandGroup) -> Iterator[ShellCommand]:
    listed = (
        ("Create the policy that deployments need", documents.POLICY_NAME, documents.POLICY_FILE),
        ("Create the policy of further steps", documents.EXTENDED_NAME, documents.EXTENDED_FILE),
    )
    for title, name, file in listed:
        words = ("iam", "create-policy", "--policy-name", name, "--policy-document", f"file://{file}")
        yield ShellCommand(title, build_aws_command(plan, *words), group)


def _list_create_commands(plan: SpecPlan) -> Iterator[ShellCommand]:
    request = plan.request
    yield ShellCommand(
        "Create the cluster", build_aws_command(plan, "ecs", "create-cluster", "--cluster-name", plan.cluster)
    )
    if request.secret.kind == "CREATE":
        words = ("--name", request.secret.name, "--secret-string", f"file://{TOKEN_FILE}")
        title = "Store the token in Secrets Manager"
        yield ShellCommand(title, build_aws_command(plan, "secretsmanager", "create-secret", *words))
    if plan.needs_execution_role:
        yield from _list_execution_role_commands(plan)
    if request.task_role and not request.task_role_exists:
        yield _build_role_command(plan, request.task_role, "Create the task role of the delegate")
        yield from _list_task_policy_commands(plan, "create")
    if plan.log_group:
        yield ShellCommand("Create the log group", build_log_group_command(plan, plan.log_group))
    yield ShellCommand("Register the task definition", _build_register_command(plan))
    yield ShellCommand("Create the service", _build_create_service_command(plan))


def _build_role_command(plan: SpecPlan, name: str, title: str) -> ShellCommand:
    trust = ("--assume-role-policy-document", f"file://{documents.TRUST_FILE}")
    return ShellCommand(title, build_aws_command(plan, "iam", "create-role", "--role-name", name, *trust))


def _list_execution_role_commands(plan: SpecPlan) -> Iterator[ShellCommand]:
    role = plan.request.execution_role
    yield _build_role_command(plan, role, "Create the execution role")
    yield ShellCommand("Allow it to pull images and write logs", build_execution_policy_command(plan, role))
    if plan.secrets:
        document = ("--policy-document", f"file://{documents.SECRET_FILE}")
        named = ("--role-name", role, "--policy-name", documents.SECRET_POLICY_NAME)
        yield ShellCommand(
            "Allow it to read the token", build_aws_command(plan, "iam", "put-role-policy", *named, *document)
        )


def _list_task_policy_commands(plan: SpecPlan, group: CommandGroup) -> Iterator[ShellCommand]:
    """Return the commands that allow the task role what the delegate is for."""
    role = plan.request.task_role
    if plan.request.uses:
        named = ("--role-name", role, "--policy-name", documents.USES_NAME)
        document = ("--policy-document", f"file://{documents.USES_FILE}")
        allowed = build_aws_command(plan, "iam", "put-role-policy", *named, *document)
        yield ShellCommand(f"Allow {role} what the delegate is for", allowed, group)
        return
    for name in (documents.POLICY_NAME, documents.EXTENDED_NAME):
        policy = f"arn:{plan.partition}:iam::{plan.aws_account}:policy/{name}"
        words = ("iam", "attach-role-policy", "--role-name", role, "--policy-arn", policy)
        yield ShellCommand(f"Attach the policy {name}", build_aws_command(plan, *words), group)


def _build_register_command(plan: SpecPlan) -> str:
    file = f"file://{plan.preset.task_file}"
    return build_aws_command(plan, "ecs", "register-task-definition", "--cli-input-json", file)


def _build_create_service_command(plan: SpecPlan) -> str:
    if plan.has_service_file:
        file = f"file://{plan.preset.service_file}"
        return build_aws_command(plan, "ecs", "create-service", "--cli-input-json", file)
    return build_aws_command(plan, "ecs", "create-service", *_list_service_flags(plan))


def _list_service_flags(plan: SpecPlan) -> list[str]:
    """Return the service definition as flags, in the order of each flavour's documents (R115, T01)."""
    service = build_service_definition(plan)
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
    if limits := service.get("deploymentConfiguration"):
        flags["--deployment-configuration"] = ",".join(f"{name}={value}" for name, value in limits.items())
    return [word for flag, value in flags.items() for word in (flag, value)]


def _list_verify_commands(plan: SpecPlan) -> Iterator[ShellCommand]:
    words = ("ecs", "describe-services", "--cluster", plan.cluster, "--services", plan.service)
    yield ShellCommand("Check that the service runs", build_aws_command(plan, *words), "verify")


def _list_update_commands(plan: SpecPlan) -> Iterator[ShellCommand]:
    yield ShellCommand(
        "Register the task definition with the new image", _build_register_command(plan), "update"
    )
    words = ("--cluster", plan.cluster, "--service", plan.service, "--task-definition", plan.family)
    changed = build_aws_command(plan, "ecs", "update-service", *words, "--force-new-deployment")
    yield ShellCommand("Update the service", changed, "update")


def _list_diagnose_commands(plan: SpecPlan) -> Iterator[ShellCommand]:
    yield ShellCommand("Read why the last task stopped", build_stopped_reason_command(plan), "diagnose")
    if plan.log_group:
        tail = build_aws_command(plan, "logs", "tail", plan.log_group, "--follow")
        yield ShellCommand("Read the delegate's log", tail, "diagnose")
    yield ShellCommand("Read the ECS service events", build_events_command(plan), "diagnose")
