"""What to know before using a spec: values that were left out, and rules that no file can show."""

from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from delegates.specs.plan import Plan


def warnings(plan: Plan) -> Iterator[str]:
    """Sentences, the most urgent first."""
    yield from _address(plan)
    if plan.request.kind == "DOCKER":
        yield from _docker(plan)
    else:
        yield from _placeholders(plan)
        yield from _hostname(plan)
        yield from _network(plan)
        yield from _roles(plan)
        yield from _token(plan)
        yield from _sizes(plan)
    yield from _proxy_and_ca(plan)


def _address(plan: Plan) -> Iterator[str]:
    url = urlsplit(plan.request.manager_url)
    host = url.hostname or ""
    if is_loopback(host):
        yield (
            f"Delegates are told to reach Slipway at {plan.request.manager_url}, "
            "which is this machine alone. Set PUBLIC_URL to an address that they can reach."
        )
    elif url.scheme == "http":
        yield "The address of Slipway is not https: tokens and results travel where others can read them."


def is_loopback(host: str) -> bool:
    """Whether a host is whatever machine looks for it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _placeholders(plan: Plan) -> Iterator[str]:
    request, holders = plan.request, plan.placeholders
    missing = []
    if not request.token and request.secret.kind != "EXISTING":
        missing.append((holders.token, "the delegate token"))
    needs_account = plan.needs_execution_role or request.task_role
    if needs_account and not request.aws_account_id:
        missing.append((holders.aws_account, "your AWS account id, 12 digits"))
    if request.is_awsvpc and not request.network.subnets:
        missing.append((holders.subnet, "the id of a subnet"))
    if request.is_awsvpc and not request.network.security_groups:
        missing.append((holders.security_group, "the id of a security group"))
    for holder, what in missing:
        yield f"Replace {holder} in the files by {what}."


def _hostname(plan: Plan) -> Iterator[str]:
    if plan.request.hostname and not plan.hostname:
        where = "Fargate" if plan.request.is_fargate else "the network mode awsvpc"
        yield (
            f"The hostname {plan.request.hostname} is left out: ECS takes none on {where}. "
            "The delegate is known by its name."
        )
    if not plan.preset.container and plan.container != plan.name:
        yield f"The container is called {plan.container}, since ECS does not take the delegate's whole name."


def _network(plan: Plan) -> Iterator[str]:
    network = plan.request.network
    if not plan.request.is_awsvpc:
        if network.subnets or network.security_groups:
            yield "Subnets and security groups are left out: on EC2 tasks use the network of their instance."
        if plan.request.flavour == "legacy" and plan.request.desired_count > 1:
            yield "The task takes port 8080 of its instance: the cluster needs an instance for each task."
        return
    if plan.request.is_fargate and network.assign_public_ip:
        yield (
            "Tasks get public addresses: the subnets have to be public, with a route to an internet gateway. "
            "In production prefer private subnets with a NAT gateway and no public address."
        )
    else:
        yield "Tasks get no public address: the subnets need a route to a NAT gateway to reach anything."
    if len(network.subnets) == 1:
        yield "There is one subnet. Give two in different availability zones, so that one zone may fail."


def _roles(plan: Plan) -> Iterator[str]:
    if plan.needs_execution_role:
        yield (
            f"Most accounts have the role {plan.request.execution_role} already. Where AWS says that a role "
            "or a policy exists, go on with the next command."
        )


def _token(plan: Plan) -> Iterator[str]:
    secret = plan.request.secret
    if not plan.request.uses_secret:
        yield (
            "The token is plain text: whoever may read the task definition can read it. "
            "In production keep it in Secrets Manager."
        )
    if secret.kind == "CREATE":
        yield "Delete delegate-token.txt once the secret is made: it holds the token."
    if secret.kind == "EXISTING":
        _, _, _, region, account, *_ = secret.arn.split(":")
        if region != plan.region:
            yield f"The secret is in {region}, the tasks are in {plan.region}: ECS reads none across regions."
        if plan.request.aws_account_id and account != plan.request.aws_account_id:
            yield f"The secret belongs to account {account}: its policy and its KMS key have to let yours in."


def _sizes(plan: Plan) -> Iterator[str]:
    if plan.request.flavour == "legacy":
        yield (
            "The legacy specification gives the container one CPU share and 2048 MiB, whatever the task has; "
            "the v3 flavour has plainer sizes."
            if not plan.request.memory_mib
            else "The legacy specification gives the container one CPU share of what its task has."
        )
    if not plan.request.is_fargate:
        yield (
            f"{plan.task_memory} MiB are for the delegate alone. The instance needs more, for its system, "
            "Docker and the ECS agent."
        )


def _docker(plan: Plan) -> Iterator[str]:
    if not plan.request.token:
        yield f"Replace {plan.placeholders.token} in the command by the delegate token."
    if plan.request.secret.kind != "PLAINTEXT":
        yield "Docker reads nothing from Secrets Manager: the token is part of the command."
    yield "The size is for the delegate alone. The machine needs more, for its system and for Docker."


def _proxy_and_ca(plan: Plan) -> Iterator[str]:
    if plan.request.proxy and plan.request.proxy.password:
        yield "The password of the proxy is plain text in the files."
    if plan.request.ca and plan.request.is_fargate:
        yield (
            f"Fargate mounts no file of a host: put the certificates at {plan.request.ca.path} "
            "into an image of your own, or mount a file system there."
        )
