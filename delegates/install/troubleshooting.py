"""Causes why a delegate does not connect or does not stay, likeliest first (R140-R144)."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from delegates.install import commands as install_commands
from delegates.install.commands import (
    build_aws_command,
    build_egress_command,
    build_events_command,
    build_log_group_command,
    build_restart_command,
    build_routes_command,
    build_stopped_reason_command,
)
from delegates.install.documents import get_token_variable
from delegates.install.generator import is_loopback
from delegates.install.plan import SHARED_LOG_GROUP, SpecPlan
from delegates.install.specs import ShellCommand, SpecRequest


@dataclass(frozen=True)
class ConnectionCause:
    """One thing that may be wrong: how it shows, what to do, and commands that tell or mend."""

    title: str
    text: str
    commands: tuple[ShellCommand, ...] = ()


def list_likely_causes(request: SpecRequest, *, refusals: Sequence[str] = ()) -> list[ConnectionCause]:
    """Why the delegate of a spec is not there yet, the likeliest first.

    `refusals` are sentences of what Slipway itself answered to tries by this name, newest first: where there
    is one, the delegate runs and reaches Slipway, so nothing else is looked at.
    """
    plan = SpecPlan(request)
    if refusals:
        said = " ".join(dict.fromkeys(refusals))
        text = f"The delegate runs and reaches Slipway, but was not let in. {said}"
        return [ConnectionCause("Slipway refused it", text), _credentials(plan)]
    causes = [*_address(plan)]
    if request.kind == "DOCKER":
        causes += [_no_container(plan), _credentials(plan), _way_out(plan)]
    else:
        causes += [*_no_task(plan), _credentials(plan), _way_out(plan), *_throttled(plan)]
    return [*causes, *_proxy_and_ca(plan)]


def list_disconnect_causes(request: SpecRequest) -> list[ConnectionCause]:
    """Why a delegate comes and goes (R143)."""
    plan = SpecPlan(request)
    has_limits = "Fargate ends" if request.is_fargate else "Docker ends"
    memory = (
        f"{has_limits} a task that needs more than its {plan.task_memory} MiB, and another one starts. Look "
        "at its memory and CPU on the page of the delegate; choose a larger size, or run fewer tasks at "
        "once."
    )
    network = (
        "Something between the delegate and Slipway closes idle connections: a proxy, a firewall, a NAT "
        "gateway. It has to leave a WebSocket open for longer than a minute. Until then the delegate "
        "polls, and works."
    )
    return [
        ConnectionCause("It has too little memory or CPU", memory, _reasons(plan)),
        ConnectionCause("The network does not keep the connection", network, _log(plan)),
    ]


def _address(plan: SpecPlan) -> Iterator[ConnectionCause]:
    url = plan.request.manager_url
    if is_loopback(urlsplit(url).hostname or ""):
        text = (
            f"Its files say that Slipway is at {url}, which is the delegate's own machine. Set PUBLIC_URL "
            "to an address that it can reach, and write the files again."
        )
        yield ConnectionCause("It looks for Slipway in the wrong place", text)


def _no_task(plan: SpecPlan) -> Iterator[ConnectionCause]:
    text = "AWS says why: first look at the last task that stopped, then at what ECS says of the service."
    events = ShellCommand("Read what ECS says about the service", build_events_command(plan), "diagnose")
    yield ConnectionCause("No task has started", text, (*_reasons(plan), events))
    if plan.needs_execution_role:
        yield _execution_role(plan)
    if plan.request.is_awsvpc:
        yield _subnets(plan)
    else:
        yield _instances(plan)
    if plan.log_group:
        yield _log_group(plan)


def _execution_role(plan: SpecPlan) -> ConnectionCause:
    role = plan.request.execution_role
    reads = ", and that it may read the secret" if plan.request.uses_secret else ""
    text = (
        f"The task definition names {plan.execution_role_arn}. Check that the account is yours, that the "
        f"role exists and trusts ecs-tasks.amazonaws.com{reads}."
    )
    commands = [
        ShellCommand(
            "Look at the role", build_aws_command(plan, "iam", "get-role", "--role-name", role), "diagnose"
        )
    ]
    if plan.request.uses_secret:
        secret = build_aws_command(plan, "secretsmanager", "describe-secret", "--secret-id", plan.secret_arn)
        commands.append(ShellCommand("Look at the secret", secret, "diagnose"))
    return ConnectionCause("The execution role is not right", text, tuple(commands))


def _subnets(plan: SpecPlan) -> ConnectionCause:
    if plan.request.is_fargate and plan.request.network.assign_public_ip:
        need = "Tasks have public addresses, so each subnet needs a route to an internet gateway (igw-…)."
    else:
        need = "Tasks have no public address, so each subnet needs a route to a NAT gateway (nat-…)."
    text = f"{need} Otherwise the image cannot be pulled: CannotPullContainerError, or a timeout."
    return ConnectionCause(
        "The subnets do not lead anywhere",
        text,
        (ShellCommand("See where their routes lead", build_routes_command(plan), "diagnose"),),
    )


def _instances(plan: SpecPlan) -> ConnectionCause:
    instances = build_aws_command(plan, "ecs", "list-container-instances", "--cluster", plan.cluster)
    port = " and its port 8080 free" if plan.request.flavour == "legacy" else ""
    text = (
        f"ECS needs an instance in the cluster {plan.cluster} that has {plan.task_memory} MiB{port}, and "
        "more than that for itself. An empty list says that none has registered."
    )
    see = ShellCommand("See the instances of the cluster", instances, "diagnose")
    return ConnectionCause("The cluster has no instance with room", text, (see,))


def _log_group(plan: SpecPlan) -> ConnectionCause:
    text = (
        'A reason such as "ResourceInitializationError: failed to validate logger args", or '
        '"AccessDeniedException: User is not authorized to perform: logs:CreateLogGroup", says that the '
        "log group is missing. Create it, then start the tasks again."
    )
    create = ShellCommand("Create the log group", build_log_group_command(plan, plan.log_group), "diagnose")
    restart = ShellCommand("Start the tasks again", build_restart_command(plan), "diagnose")
    return ConnectionCause("The log group is missing", text, (create, restart))


def _credentials(plan: SpecPlan) -> ConnectionCause:
    legacy = plan.request.flavour == "legacy"
    account = "ACCOUNT_ID" if legacy else "HARNESS_ACCOUNT_ID"
    url = "MANAGER_HOST_AND_PORT" if legacy else "HARNESS_URL"
    text = (
        f"Compare {account} ({plan.request.account_id}) and {url} ({plan.request.manager_url}) with the "
        f"files, and make sure that the token of {get_token_variable(plan)} is neither cut off nor revoked. "
        "Slipway keeps what it refuses among the events of the delegate."
    )
    return ConnectionCause("Account id, token or address are wrong", text, _log(plan))


def _way_out(plan: SpecPlan) -> ConnectionCause:
    url = urlsplit(plan.request.manager_url)
    port = url.port or (443 if url.scheme == "https" else 80)
    where = "The security groups have" if plan.request.is_awsvpc else "The host's firewall and network have"
    text = f"{where} to let connections out to {url.hostname}, port {port}. Nothing has to be let in."
    groups = ShellCommand("See what the security groups let out", build_egress_command(plan), "diagnose")
    return ConnectionCause("It cannot get out", text, (groups,) if plan.request.is_awsvpc else ())


def _throttled(plan: SpecPlan) -> Iterator[ConnectionCause]:
    if not plan.log_group or plan.log_group == SHARED_LOG_GROUP:
        return
    text = (
        "Where many delegates start at once, ThrottlingException or ResourceAlreadyExistsException may "
        f"come of their log groups. Let them share one: {SHARED_LOG_GROUP}."
    )
    create = ShellCommand(
        "Create the shared log group", build_log_group_command(plan, SHARED_LOG_GROUP), "diagnose"
    )
    yield ConnectionCause("CloudWatch Logs has had enough", text, (create,))


def _proxy_and_ca(plan: SpecPlan) -> Iterator[ConnectionCause]:
    if plan.request.proxy:
        proxy = plan.request.proxy
        text = f"The log says so: check that {proxy.host}:{proxy.port} takes CONNECT for Slipway and for AWS."
        yield ConnectionCause("The proxy does not let it through", text, _log(plan))
    if urlsplit(plan.request.manager_url).scheme == "https":
        text = (
            "CERTIFICATE_VERIFY_FAILED in its log means that the certificate of Slipway, or of a proxy "
            "that looks into connections, comes from an authority of your own. Give the delegate its CA "
            "bundle."
        )
        yield ConnectionCause("It does not trust the certificate", text, _log(plan))


def _no_container(plan: SpecPlan) -> ConnectionCause:
    name = install_commands.build_container_name(plan)
    text = "Docker says whether the container is there and how it ended; 137 often means too little memory."
    listed = shlex.join(["docker", "ps", "--all", "--filter", f"name={name}"])
    return ConnectionCause(
        "The container does not run",
        text,
        (ShellCommand("See whether it runs", listed, "diagnose"), *_log(plan)),
    )


def _reasons(plan: SpecPlan) -> tuple[ShellCommand, ...]:
    if plan.request.kind == "DOCKER":
        form = "{{.State.OOMKilled}} {{.State.ExitCode}}"
        words = ["docker", "inspect", "--format", form, install_commands.build_container_name(plan)]
        return (ShellCommand("See whether it ran out of memory", shlex.join(words), "diagnose"),)
    return (ShellCommand("Read why the last task stopped", build_stopped_reason_command(plan), "diagnose"),)


def _log(plan: SpecPlan) -> tuple[ShellCommand, ...]:
    title = "Read the delegate's log"
    if plan.request.kind == "DOCKER":
        words = ["docker", "logs", "--tail", "100", install_commands.build_container_name(plan)]
        return (ShellCommand(title, shlex.join(words), "diagnose"),)
    if not plan.log_group:
        return ()
    return (
        ShellCommand(title, build_aws_command(plan, "logs", "tail", plan.log_group, "--follow"), "diagnose"),
    )
