"""Causes why a delegate does not connect or does not stay, likeliest first (R140-R144)."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from aws.stop_reasons import find_reason_cause
from delegates.install.addresses import is_loopback
from delegates.install.commands import (
    build_aws_command,
    build_egress_command,
    build_events_command,
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
    request: SpecRequest, *, refusals: Sequence[str] = (), stop_reason: str = ""
) -> list[ConnectionCause]:
    """Return the causes that may keep a delegate from connecting, most likely first.

    `refusals` are Slipway's answers to registrations under this name, newest first. A refusal proves that the
    delegate runs and reaches Slipway, so other causes are left out. `stop_reason` is why ECS stopped its last
    task: a known reason names the cause, which replaces the guesses about starting.
    """
    plan = SpecPlan(request)
    if refusals:
        reasons = " ".join(dict.fromkeys(refusals))
        text = f"The delegate runs and reaches Slipway, but its registration was refused. {reasons}"
        return [ConnectionCause("Registration refused", text), _describe_credentials_cause(plan)]
    causes = [*_describe_address_cause(plan)]
    if request.kind != "ECS":
        causes += [
            _describe_missing_program(plan),
            _describe_credentials_cause(plan),
            _describe_egress_cause(plan),
        ]
    else:
        causes += [
            *(_describe_stop(plan, stop_reason) or _describe_missing_task(plan)),
            _describe_credentials_cause(plan),
            _describe_egress_cause(plan),
            *_describe_throttling(plan),
        ]
    return [*causes, *_describe_proxy_cause(plan)]


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


def _describe_stop(plan: SpecPlan, stop_reason: str) -> list[ConnectionCause]:
    """Return the cause in a stop reason; none for an unknown reason."""
    cause = find_reason_cause(stop_reason, container=plan.container)
    if cause is None:
        return []
    text = f"{cause.message} {cause.advice} AWS says: {stop_reason.strip().rstrip('.')}."
    causes = [ConnectionCause("The last task stopped", text, _list_reasons(plan))]
    # Only a pull that failed on its way is about the network.
    return [*causes, _describe_subnet_cause(plan)] if cause.is_network and plan.request.is_awsvpc else causes


def _describe_image_cause(plan: SpecPlan) -> ConnectionCause:
    image = plan.source_image
    where = (
        "It has no registry, so that ECS cannot pull it. " if image.is_local and not plan.is_mirrored else ""
    )
    text = (
        f'Tasks pull {plan.image}. {where}A reason such as CannotPullContainerError with "not found" or '
        '"denied" says that this image does not exist there, or that the execution role may not pull it.'
    )
    repository = parse_image(plan.image).repository
    if not parse_image(plan.image).ecr_account:
        return ConnectionCause("Image cannot be pulled", text)
    listed = build_aws_command(plan, "ecr", "describe-images", "--repository-name", repository)
    see = ShellCommand("List the images of the repository", listed, "diagnose")
    return ConnectionCause("Image cannot be pulled", text, (see,))


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
    instances = build_aws_command(plan, "ecs", "list-container-instances", "--cluster", plan.cluster)
    port = " and its port 8080 free" if plan.request.flavour == "legacy" else ""
    text = (
        f"ECS needs an instance in the cluster {plan.cluster} that has {plan.task_memory} MiB{port}, and "
        "more than that for itself. An empty list says that none has registered."
    )
    see = ShellCommand("List the container instances of the cluster", instances, "diagnose")
    return ConnectionCause("No container instance with enough resources", text, (see,))


def _describe_log_group_cause(plan: SpecPlan) -> ConnectionCause:
    text = (
        'A reason such as "ResourceInitializationError: failed to validate logger args", or '
        '"AccessDeniedException: User is not authorized to perform: logs:CreateLogGroup", says that the '
        "log group is missing. Create it, then start the tasks again."
    )
    create = ShellCommand("Create the log group", build_log_group_command(plan, plan.log_group), "diagnose")
    restart = ShellCommand("Start the tasks again", build_restart_command(plan), "diagnose")
    return ConnectionCause("Log group missing", text, (create, restart))


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
