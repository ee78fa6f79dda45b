"""Why a delegate has not connected, or does not stay: causes in the order to look at them (R140–R144)."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from delegates.specs import docker
from delegates.specs.commands import (
    aws,
    egress_command,
    events_command,
    log_group_command,
    restart_command,
    routes_command,
    stopped_reason_command,
)
from delegates.specs.documented import SHARED_LOG_GROUP
from delegates.specs.environment import token_variable
from delegates.specs.plan import Plan
from delegates.specs.request import SpecRequest
from delegates.specs.spec import Command
from delegates.specs.warnings import is_loopback


@dataclass(frozen=True)
class Cause:
    """One thing that may be wrong: how it shows, what to do, and commands that tell or mend."""

    title: str
    text: str
    commands: tuple[Command, ...] = ()


def likely_causes(request: SpecRequest, *, refusals: Sequence[str] = ()) -> list[Cause]:
    """Why the delegate of a spec is not there yet, the likeliest first.

    `refusals` are sentences of what Slipway itself answered to tries by this name, newest first: where there
    is one, the delegate runs and reaches Slipway, so nothing else is looked at.
    """
    plan = Plan(request)
    if refusals:
        said = " ".join(dict.fromkeys(refusals))
        text = f"The delegate runs and reaches Slipway, but was not let in. {said}"
        return [Cause("Slipway refused it", text), _credentials(plan)]
    causes = [*_address(plan)]
    if request.kind == "DOCKER":
        causes += [_no_container(plan), _credentials(plan), _way_out(plan)]
    else:
        causes += [*_no_task(plan), _credentials(plan), _way_out(plan), *_throttled(plan)]
    return [*causes, *_proxy_and_ca(plan)]


def causes_of_disconnects(request: SpecRequest) -> list[Cause]:
    """Why a delegate comes and goes (R143)."""
    plan = Plan(request)
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
        Cause("It has too little memory or CPU", memory, _reasons(plan)),
        Cause("The network does not keep the connection", network, _log(plan)),
    ]


def _address(plan: Plan) -> Iterator[Cause]:
    url = plan.request.manager_url
    if is_loopback(urlsplit(url).hostname or ""):
        text = (
            f"Its files say that Slipway is at {url}, which is the delegate's own machine. Set PUBLIC_URL "
            "to an address that it can reach, and write the files again."
        )
        yield Cause("It looks for Slipway in the wrong place", text)


def _no_task(plan: Plan) -> Iterator[Cause]:
    text = "AWS says why: first look at the last task that stopped, then at what ECS says of the service."
    events = Command("Read what ECS says about the service", events_command(plan), "diagnose")
    yield Cause("No task has started", text, (*_reasons(plan), events))
    if plan.needs_execution_role:
        yield _execution_role(plan)
    if plan.request.is_awsvpc:
        yield _subnets(plan)
    else:
        yield _instances(plan)
    if plan.log_group:
        yield _log_group(plan)


def _execution_role(plan: Plan) -> Cause:
    role = plan.request.execution_role
    reads = ", and that it may read the secret" if plan.request.uses_secret else ""
    text = (
        f"The task definition names {plan.execution_role_arn}. Check that the account is yours, that the "
        f"role exists and trusts ecs-tasks.amazonaws.com{reads}."
    )
    commands = [Command("Look at the role", aws(plan, "iam", "get-role", "--role-name", role), "diagnose")]
    if plan.request.uses_secret:
        secret = aws(plan, "secretsmanager", "describe-secret", "--secret-id", plan.secret_arn)
        commands.append(Command("Look at the secret", secret, "diagnose"))
    return Cause("The execution role is not right", text, tuple(commands))


def _subnets(plan: Plan) -> Cause:
    if plan.request.is_fargate and plan.request.network.assign_public_ip:
        need = "Tasks have public addresses, so each subnet needs a route to an internet gateway (igw-…)."
    else:
        need = "Tasks have no public address, so each subnet needs a route to a NAT gateway (nat-…)."
    text = f"{need} Otherwise the image cannot be pulled: CannotPullContainerError, or a timeout."
    return Cause(
        "The subnets do not lead anywhere",
        text,
        (Command("See where their routes lead", routes_command(plan), "diagnose"),),
    )


def _instances(plan: Plan) -> Cause:
    instances = aws(plan, "ecs", "list-container-instances", "--cluster", plan.cluster)
    port = " and its port 8080 free" if plan.request.flavour == "legacy" else ""
    text = (
        f"ECS needs an instance in the cluster {plan.cluster} that has {plan.task_memory} MiB{port}, and "
        "more than that for itself. An empty list says that none has registered."
    )
    see = Command("See the instances of the cluster", instances, "diagnose")
    return Cause("The cluster has no instance with room", text, (see,))


def _log_group(plan: Plan) -> Cause:
    text = (
        'A reason such as "ResourceInitializationError: failed to validate logger args", or '
        '"AccessDeniedException: User is not authorized to perform: logs:CreateLogGroup", says that the '
        "log group is missing. Create it, then start the tasks again."
    )
    create = Command("Create the log group", log_group_command(plan, plan.log_group), "diagnose")
    restart = Command("Start the tasks again", restart_command(plan), "diagnose")
    return Cause("The log group is missing", text, (create, restart))


def _credentials(plan: Plan) -> Cause:
    legacy = plan.request.flavour == "legacy"
    account = "ACCOUNT_ID" if legacy else "HARNESS_ACCOUNT_ID"
    url = "MANAGER_HOST_AND_PORT" if legacy else "HARNESS_URL"
    text = (
        f"Compare {account} ({plan.request.account_id}) and {url} ({plan.request.manager_url}) with the "
        f"files, and make sure that the token of {token_variable(plan)} is neither cut off nor revoked. "
        "Slipway keeps what it refuses among the events of the delegate."
    )
    return Cause("Account id, token or address are wrong", text, _log(plan))


def _way_out(plan: Plan) -> Cause:
    url = urlsplit(plan.request.manager_url)
    port = url.port or (443 if url.scheme == "https" else 80)
    where = "The security groups have" if plan.request.is_awsvpc else "The host's firewall and network have"
    text = f"{where} to let connections out to {url.hostname}, port {port}. Nothing has to be let in."
    groups = Command("See what the security groups let out", egress_command(plan), "diagnose")
    return Cause("It cannot get out", text, (groups,) if plan.request.is_awsvpc else ())


def _throttled(plan: Plan) -> Iterator[Cause]:
    if not plan.log_group or plan.log_group == SHARED_LOG_GROUP:
        return
    text = (
        "Where many delegates start at once, ThrottlingException or ResourceAlreadyExistsException may "
        f"come of their log groups. Let them share one: {SHARED_LOG_GROUP}."
    )
    create = Command("Create the shared log group", log_group_command(plan, SHARED_LOG_GROUP), "diagnose")
    yield Cause("CloudWatch Logs has had enough", text, (create,))


def _proxy_and_ca(plan: Plan) -> Iterator[Cause]:
    if plan.request.proxy:
        proxy = plan.request.proxy
        text = f"The log says so: check that {proxy.host}:{proxy.port} takes CONNECT for Slipway and for AWS."
        yield Cause("The proxy does not let it through", text, _log(plan))
    if urlsplit(plan.request.manager_url).scheme == "https":
        text = (
            "CERTIFICATE_VERIFY_FAILED in its log means that the certificate of Slipway, or of a proxy "
            "that looks into connections, comes from an authority of your own. Give the delegate its CA "
            "bundle."
        )
        yield Cause("It does not trust the certificate", text, _log(plan))


def _no_container(plan: Plan) -> Cause:
    name = docker.container_name(plan)
    text = "Docker says whether the container is there and how it ended; 137 often means too little memory."
    listed = shlex.join(["docker", "ps", "--all", "--filter", f"name={name}"])
    return Cause(
        "The container does not run",
        text,
        (Command("See whether it runs", listed, "diagnose"), *_log(plan)),
    )


def _reasons(plan: Plan) -> tuple[Command, ...]:
    if plan.request.kind == "DOCKER":
        form = "{{.State.OOMKilled}} {{.State.ExitCode}}"
        words = ["docker", "inspect", "--format", form, docker.container_name(plan)]
        return (Command("See whether it ran out of memory", shlex.join(words), "diagnose"),)
    return (Command("Read why the last task stopped", stopped_reason_command(plan), "diagnose"),)


def _log(plan: Plan) -> tuple[Command, ...]:
    title = "Read the delegate's log"
    if plan.request.kind == "DOCKER":
        words = ["docker", "logs", "--tail", "100", docker.container_name(plan)]
        return (Command(title, shlex.join(words), "diagnose"),)
    if not plan.log_group:
        return ()
    return (Command(title, aws(plan, "logs", "tail", plan.log_group, "--follow"), "diagnose"),)
