"""Causes why a delegate does not connect or does not stay, likeliest first (R140-R144)."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from aws.stop_reasons import find_reason_cause
from delegates.install.addresses import is_loopback
from delegates.install.commands import (
    build_aws_command,
    build_egress_command,
    build_events_command,
    build_execution_policy_command,
    build_log_group_command,
    build_restart_command,
    build_routes_command,
    build_stopped_reason_command,
)
from delegates.install.containers import build_container_name
from delegates.install.documents import get_token_variable
from delegates.install.images import parse_image
from delegates.install.plan import SHARED_LOG_GROUP, SpecPlan
from delegates.install.platforms import PLATFORMS, list_diagnose_commands
from delegates.install.specs import ShellCommand, SpecRequest


@dataclass(frozen=True)
class ConnectionCause:
    """Possible cause of a missing connection: symptom, remedy and shell commands."""

    title: str
    text: str
    commands: tuple[ShellCommand, ...] = ()


def list_likely_causes(
    request: SpecRequest,
    *,
    refusals: Sequence[str] = (),
    stop_reasons: Sequence[str] = (),
    is_running: bool = False,
) -> list[ConnectionCause]:
    """Return the causes that may keep a delegate from connecting, most likely first.

    `refusals` are Slipway's answers to registrations under this name, newest first. A refusal proves that the
    delegate runs and reaches Slipway, so other causes are left out. `stop_reasons` are why ECS stopped its
    tasks or could not start them, newest first: their causes replace the guesses about starting, as does a
    task that runs.
    """
    plan = SpecPlan(request)
    if refusals:
        reasons = " ".join(dict.fromkeys(refusals))
        text = f"The delegate runs and reaches Slipway, but its registration was refused. {reasons}"
        return [ConnectionCause("Registration refused", text), _describe_credentials_cause(plan)]
    if request.kind != "ECS":
        return [
            *_describe_address_cause(plan),
            _describe_missing_program(plan),
            _describe_credentials_cause(plan),
            _describe_egress_cause(plan),
            *_describe_proxy_cause(plan),
        ]
    stops = _list_stop_causes(plan, stop_reasons)
    return [
        *stops,
        *_describe_address_cause(plan),
        *([] if stops or is_running else _describe_missing_task(plan)),
        _describe_credentials_cause(plan),
        _describe_egress_cause(plan),
        *_describe_throttling(plan),
        *_describe_proxy_cause(plan),
    ]


def list_disconnect_causes(request: SpecRequest) -> list[ConnectionCause]:
    """Return the causes of repeated disconnects (R143)."""
    plan = SpecPlan(request)
    has_limits = "Fargate ends" if request.is_fargate else "Its platform ends"
    memory = (
        f"{has_limits} a task that needs more than its {plan.task_memory} MiB, and starts another. Check "
        f"its memory and CPU on the delegate page. Choose a larger size, or run fewer tasks in parallel."
    )
    network = (
        "A proxy, firewall or NAT gateway between the delegate and Slipway closes idle connections. It must "
        "keep a WebSocket open for more than a minute. Until then the delegate uses polling."
    )
    return [
        ConnectionCause("Too little memory or CPU", memory, _list_reasons(plan)),
        ConnectionCause("Idle connections are closed", network, _describe_log_cause(plan)),
    ]


def _describe_address_cause(plan: SpecPlan) -> Iterator[ConnectionCause]:
    url = plan.request.manager_url
    if is_loopback(urlsplit(url).hostname or ""):
        text = (
            f"The files use {url} for Slipway, which is the host of the delegate itself. Set PUBLIC_URL to "
            f"an address that it can reach, and regenerate the files."
        )
        yield ConnectionCause("Wrong Slipway URL", text)


def _list_stop_causes(plan: SpecPlan, reasons: Sequence[str]) -> list[ConnectionCause]:
    """Return the causes in stop reasons, one for each kind; an unknown reason is quoted."""
    causes: dict[str, ConnectionCause] = {}
    needs_route = False
    for reason in reasons:
        cause = find_reason_cause(reason, container=plan.container)
        needs_route = needs_route or bool(cause and cause.is_network and plan.request.is_awsvpc)
        title, commands = _STOP_CAUSES.get(cause.code if cause else "", _UNKNOWN_STOP)
        remedy = f"{cause.message} {cause.advice} " if cause else ""
        text = f"{remedy}AWS says: {reason.strip().rstrip('.')}."
        causes.setdefault(title, ConnectionCause(title, text, tuple(commands(plan, reason))))
    # Only a pull that failed on its way is about the network.
    routes = [_describe_subnet_cause(plan)] if needs_route else []
    return [*causes.values(), *routes]


def _list_image_commands(plan: SpecPlan, _reason: str = "") -> Iterator[ShellCommand]:
    image = parse_image(plan.image)
    if image.ecr_account:
        words = ("ecr", "describe-images", "--repository-name", image.repository)
        listed = build_aws_command(plan, *words)
        yield ShellCommand("List the images of the repository", listed, "diagnose")


def _list_role_commands(plan: SpecPlan, reason: str) -> Iterator[ShellCommand]:
    """Return the command that reads the role that a reason names, or the execution role."""
    named = _ROLE.search(reason)
    role = (named[1] or named[2]) if named else plan.request.execution_role
    command = build_aws_command(plan, "iam", "get-role", "--role-name", role)
    yield ShellCommand("Read the role", command, "diagnose")


def _list_pull_commands(plan: SpecPlan, reason: str) -> Iterator[ShellCommand]:
    named = _ROLE.search(reason)
    role = (named[1] or named[2]) if named else plan.request.execution_role
    yield ShellCommand(
        "Allow the role to pull from Amazon ECR", build_execution_policy_command(plan, role), "diagnose"
    )


def _list_secret_commands(plan: SpecPlan, reason: str) -> Iterator[ShellCommand]:
    named = _SECRET.search(reason)
    secret = named[0] if named else plan.secret_arn
    words = ("secretsmanager", "describe-secret", "--secret-id", secret)
    yield ShellCommand("Read the secret", build_aws_command(plan, *words), "diagnose")
    yield from _list_role_commands(plan, reason)


def _list_log_group_commands(plan: SpecPlan, _reason: str = "") -> Iterator[ShellCommand]:
    if plan.log_group:
        create = build_log_group_command(plan, plan.log_group)
        yield ShellCommand("Create the missing log group", create, "diagnose")
    yield ShellCommand("Start the tasks again", build_restart_command(plan), "diagnose")


def _list_log_commands(plan: SpecPlan, _reason: str) -> Iterator[ShellCommand]:
    yield from (*_list_reasons(plan), *_describe_log_cause(plan))


def _list_instance_commands(plan: SpecPlan, _reason: str = "") -> Iterator[ShellCommand]:
    words = ("ecs", "list-container-instances", "--cluster", plan.cluster)
    instances = build_aws_command(plan, *words)
    yield ShellCommand("List the container instances of the cluster", instances, "diagnose")


def _list_network_commands(plan: SpecPlan, _reason: str) -> Iterator[ShellCommand]:
    yield ShellCommand("Read the routes of the subnets", build_routes_command(plan), "diagnose")
    yield ShellCommand("Read the security groups", build_egress_command(plan), "diagnose")


# The role or secret that a reason names; the stack of a deployed delegate has names of its own.
_ROLE = re.compile(r"assumed-role/([\w+=,.@-]{1,64})/|:role/(?:[\w+=,.@-]+/)*([\w+=,.@-]{1,64})", re.ASCII)
_SECRET = re.compile(r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]{1,512}")
_CommandLister = Callable[[SpecPlan, str], Iterator[ShellCommand]]
_UNKNOWN_STOP: Final[tuple[str, _CommandLister]] = ("The last task stopped", _list_log_commands)
# Title and commands by the code of a `FailureCause`.
_STOP_CAUSES: Final[Mapping[str, tuple[str, _CommandLister]]] = {
    "IMAGE_NOT_FOUND": ("Image cannot be pulled", _list_image_commands),
    "IMAGE_PULL_FAILED": ("Pulling the image failed", _list_image_commands),
    "REGISTRY_DENIED": ("Execution role may not pull the image", _list_pull_commands),
    "WRONG_ARCHITECTURE": ("Image is for another CPU architecture", _list_image_commands),
    "SECRET_MISSING": ("Secret cannot be read", _list_secret_commands),
    "ROLE_NOT_ASSUMED": ("Role cannot be assumed", _list_role_commands),
    "LOG_GROUP_MISSING": ("Log group missing", _list_log_group_commands),
    "SUBNET_MISSING": ("Subnet does not exist", _list_network_commands),
    "SUBNET_FULL": ("Subnet has no free address", _list_network_commands),
    "SECURITY_GROUP_MISSING": ("Security group does not exist", _list_network_commands),
    "NO_CAPACITY": ("No capacity for the task", _list_instance_commands),
    "OUT_OF_MEMORY": ("Too little memory", _list_log_commands),
    "CONTAINER_UNHEALTHY": ("Delegate started, but did not connect in time", _list_log_commands),
}


def _describe_image_cause(plan: SpecPlan) -> ConnectionCause:
    image = plan.source_image
    where = (
        "It has no registry, so that ECS cannot pull it. " if image.is_local and not plan.is_mirrored else ""
    )
    text = (
        f'Tasks pull {plan.image}. {where}A reason such as CannotPullContainerError with "not found" or '
        '"denied" says that this image does not exist there, or that the execution role may not pull it.'
    )
    return ConnectionCause("Image cannot be pulled", text, tuple(_list_image_commands(plan)))


def _describe_missing_task(plan: SpecPlan) -> Iterator[ConnectionCause]:
    text = "Check the stopped reason of the last task, then the ECS service events."
    events = ShellCommand("Read the ECS service events", build_events_command(plan), "diagnose")
    yield ConnectionCause("No task has started", text, (*_list_reasons(plan), events))
    yield _describe_image_cause(plan)
    if plan.needs_execution_role:
        yield _describe_execution_role_cause(plan)
    if plan.request.is_awsvpc:
        yield _describe_subnet_cause(plan)
    else:
        yield _describe_instance_cause(plan)
    if plan.log_group:
        yield _describe_log_group_cause(plan)


def _describe_execution_role_cause(plan: SpecPlan) -> ConnectionCause:
    role = plan.request.execution_role
    reads = ", and that it may read the secret" if plan.request.uses_secret else ""
    text = (
        f"The task definition names {plan.execution_role_arn}. Check that the account is yours, that the "
        f"role exists and trusts ecs-tasks.amazonaws.com{reads}."
    )
    commands = [
        ShellCommand(
            "Read the role", build_aws_command(plan, "iam", "get-role", "--role-name", role), "diagnose"
        )
    ]
    if plan.request.uses_secret:
        secret = build_aws_command(plan, "secretsmanager", "describe-secret", "--secret-id", plan.secret_arn)
        commands.append(ShellCommand("Read the secret", secret, "diagnose"))
    return ConnectionCause("Execution role not valid", text, tuple(commands))


def _describe_subnet_cause(plan: SpecPlan) -> ConnectionCause:
    if plan.request.is_fargate and plan.request.network.assign_public_ip:
        need = "Tasks have a public IP, so each subnet needs a route to an internet gateway (igw-…)."
    else:
        need = "Tasks have no public IP, so each subnet needs a route to a NAT gateway (nat-…)."
    text = f"{need} Otherwise pulling the image, or reading the secret, ends with a timeout."
    return ConnectionCause(
        "Subnets have no route to the internet",
        text,
        (ShellCommand("Read their routes", build_routes_command(plan), "diagnose"),),
    )


def _describe_instance_cause(plan: SpecPlan) -> ConnectionCause:
    port = " and its port 8080 free" if plan.request.flavour == "legacy" else ""
    text = (
        f"ECS needs an instance in the cluster {plan.cluster} that has {plan.task_memory} MiB{port}, and "
        "more than that for itself. An empty list says that none has registered."
    )
    title = "No container instance with enough resources"
    return ConnectionCause(title, text, tuple(_list_instance_commands(plan)))


def _describe_log_group_cause(plan: SpecPlan) -> ConnectionCause:
    text = (
        'A reason such as "ResourceInitializationError: failed to validate logger args", or '
        '"AccessDeniedException: User is not authorized to perform: logs:CreateLogGroup", says that the '
        "log group is missing. Create it, then start the tasks again."
    )
    return ConnectionCause("Log group missing", text, tuple(_list_log_group_commands(plan)))


def _describe_credentials_cause(plan: SpecPlan) -> ConnectionCause:
    legacy = plan.request.flavour == "legacy"
    account = "ACCOUNT_ID" if legacy else "HARNESS_ACCOUNT_ID"
    url = "MANAGER_HOST_AND_PORT" if legacy else "HARNESS_URL"
    text = (
        f"Compare {account} ({plan.request.account_id}) and {url} ({plan.request.manager_url}) with the "
        f"files, and make sure that the token of {get_token_variable(plan)} is neither cut off nor revoked. "
        "Refused registrations are listed in the events of the delegate."
    )
    return ConnectionCause("Wrong account ID, token or URL", text, _describe_log_cause(plan))


def _describe_egress_cause(plan: SpecPlan) -> ConnectionCause:
    url = urlsplit(plan.request.manager_url)
    port = url.port or (443 if url.scheme == "https" else 80)
    where = "The security groups have" if plan.request.is_awsvpc else "The host's firewall and network have"
    text = f"{where} to let connections out to {url.hostname}, port {port}. No inbound rule is needed."
    groups = ShellCommand(
        "Read the outbound rules of the security groups", build_egress_command(plan), "diagnose"
    )
    return ConnectionCause("No outbound access", text, (groups,) if plan.request.is_awsvpc else ())


def _describe_throttling(plan: SpecPlan) -> Iterator[ConnectionCause]:
    if not plan.log_group or plan.log_group == SHARED_LOG_GROUP:
        return
    text = (
        "Where many delegates start at once, ThrottlingException or ResourceAlreadyExistsException can be "
        f"caused by their log groups. Use one shared group: {SHARED_LOG_GROUP}."
    )
    create = ShellCommand(
        "Create the shared log group", build_log_group_command(plan, SHARED_LOG_GROUP), "diagnose"
    )
    yield ConnectionCause("CloudWatch Logs limits exceeded", text, (create,))


def _describe_proxy_cause(plan: SpecPlan) -> Iterator[ConnectionCause]:
    if plan.request.proxy:
        proxy = plan.request.proxy
        text = f"See the log. Check that {proxy.host}:{proxy.port} allows CONNECT to Slipway and AWS."
        yield ConnectionCause("Blocked by the proxy", text, _describe_log_cause(plan))
    if urlsplit(plan.request.manager_url).scheme == "https":
        text = (
            "CERTIFICATE_VERIFY_FAILED in its log means that the certificate of Slipway, or of an "
            "inspecting proxy, is from a private CA. Add its CA bundle to the delegate."
        )
        yield ConnectionCause("Certificate not trusted", text, _describe_log_cause(plan))


def _describe_missing_program(plan: SpecPlan) -> ConnectionCause:
    text = "Check whether the delegate runs, and how it ended; exit code 137 often means too little memory."
    if plan.request.kind == "DOCKER":
        name = build_container_name(plan)
        listed = shlex.join(["docker", "ps", "--all", "--filter", f"name={name}"])
        commands = (ShellCommand("Check that it runs", listed, "diagnose"), *_describe_log_cause(plan))
    else:
        commands = list_diagnose_commands(plan)
    return ConnectionCause(PLATFORMS[plan.request.kind].symptom, text, commands)


def _list_reasons(plan: SpecPlan) -> tuple[ShellCommand, ...]:
    if plan.request.kind == "DOCKER":
        form = "{{.State.OOMKilled}} {{.State.ExitCode}}"
        words = ["docker", "inspect", "--format", form, build_container_name(plan)]
        return (ShellCommand("Check whether it ran out of memory", shlex.join(words), "diagnose"),)
    if plan.request.kind != "ECS":
        return list_diagnose_commands(plan)
    return (ShellCommand("Read why the last task stopped", build_stopped_reason_command(plan), "diagnose"),)


def _describe_log_cause(plan: SpecPlan) -> tuple[ShellCommand, ...]:
    title = "Read the delegate's log"
    if plan.request.kind not in ("ECS", "DOCKER"):
        return list_diagnose_commands(plan)
    if plan.request.kind == "DOCKER":
        words = ["docker", "logs", "--tail", "100", build_container_name(plan)]
        return (ShellCommand(title, shlex.join(words), "diagnose"),)
    if not plan.log_group:
        return ()
    return (
        ShellCommand(title, build_aws_command(plan, "logs", "tail", plan.log_group, "--follow"), "diagnose"),
    )
