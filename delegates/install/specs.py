"""Specs of delegates: the request with its checks, and the files and commands that result."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from aws.policies import get_policy
from aws.regions import list_regions
from connectors.specs.base import find_tag_problems
from guards.input_problems import InputProblem
from guards.limits import DELEGATE_TAGS, DELEGATE_TASKS, NAME_CHARACTERS
from guards.text import find_control_problem, find_name_problem

# Purpose of a command: find ids, mirror the image, permit deployments, create, verify the start, update the
# image, diagnose.
CommandGroup = Literal["find", "mirror", "permissions", "create", "verify", "update", "diagnose"]
# The commands that install a delegate.
INSTALL_GROUPS: Final[tuple[CommandGroup, ...]] = ("find", "mirror", "create", "verify")


@dataclass(frozen=True)
class ShellCommand:
    """Shell command with its purpose."""

    title: str
    command: str
    group: CommandGroup = "create"

    def as_record(self) -> dict[str, str]:
        return {"title": self.title, "command": self.command}


@dataclass(frozen=True)
class DelegateSpecFiles:
    """A delegate's files and commands; `task_definition` and `service` are empty for Docker."""

    files: Mapping[str, str]
    commands: tuple[ShellCommand, ...]
    warnings: tuple[str, ...] = ()
    task_definition: Mapping[str, Any] = field(default_factory=dict)
    service: Mapping[str, Any] = field(default_factory=dict)

    def list_commands(self, *groups: CommandGroup) -> list[ShellCommand]:
        """Return the commands of some groups, in the order to run them."""
        return [command for command in self.commands if command.group in groups]


def list_tag_problems(tags: Sequence[str]) -> Iterator[str]:
    """Return the problems of tags as sentences."""
    if len(tags) > DELEGATE_TAGS:
        yield f"A delegate can have at most {DELEGATE_TAGS:d} tags."
        return
    for tag in tags:
        yield from find_tag_problems([tag])


Kind = Literal["ECS", "DOCKER", "COMPOSE", "KUBERNETES", "SHELL_SCRIPT"]
KINDS: Final[tuple[Kind, ...]] = ("ECS", "DOCKER", "COMPOSE", "KUBERNETES", "SHELL_SCRIPT")
# Their files keep the token apart from the variables.
_TOKEN_FILE_KINDS: Final = ("COMPOSE", "KUBERNETES", "SHELL_SCRIPT")
Flavour = Literal["legacy", "v3"]
LaunchType = Literal["EC2", "FARGATE"]
NetworkMode = Literal["", "bridge", "host", "awsvpc"]
SecretKind = Literal["PLAINTEXT", "EXISTING", "CREATE"]
EXECUTION_ROLE: Final = "ecsTaskExecutionRole"
TOKEN_FILE: Final = "delegate-token.txt"  # noqa: S105
SECRET_NAME: Final = "harness/delegate-token"  # noqa: S105
ROLE_NAME_CHARACTERS: Final = 64
MAX_SUBNETS, MAX_GROUPS = 16, 5
LEAST_STOP_SECONDS, FARGATE_STOP_SECONDS, MOST_STOP_SECONDS = 20, 120, 3600
_AWS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}\Z")
_ROLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+=,.@-]{0,63}\Z")
_LOG_GROUP = re.compile(r"[A-Za-z0-9_/.#][A-Za-z0-9_/.#-]{0,511}\Z")
_SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9/_+=.@-]{0,511}\Z")
_SECRET_ARN = re.compile(
    r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]{1,512}(:[^:\s]*){0,3}\Z"
)
_HOSTNAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*\Z")
_ACCOUNT = re.compile(r"\d{12}\Z")
_SUBNET = re.compile(r"subnet-[0-9a-zA-Z]{1,40}\Z")
_GROUP = re.compile(r"sg-[0-9a-zA-Z]{1,40}\Z")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,499}\Z")
_PATH = re.compile(r"/[A-Za-z0-9._/-]{0,1000}\Z")
# Characters that would end the value of a proxy setting.
_PROXY_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}\Z")


NEW_NAME_PATTERN = r"^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\Z"
NEW_NAME_PROBLEM = "Use up to 63 letters, digits and hyphens; begin and end with a letter or digit."


def find_new_name_problem(name: str) -> str:
    """Return why a new delegate cannot have a name, or an empty text; older delegates may have any name.

    Services, roles, secrets, pods and hosts are called after it, so it has to suit all of them.
    """
    return "" if re.match(NEW_NAME_PATTERN, name) else NEW_NAME_PROBLEM


def build_role_name(name: str) -> str:
    """Return the name of the task role of one delegate."""
    return f"slipway-{name}"[:ROLE_NAME_CHARACTERS].rstrip("-")


def build_secret_name(name: str) -> str:
    """Return the name of the secret with the token of one delegate."""
    return f"slipway/delegates/{name}"


@dataclass(frozen=True)
class SpecNetwork:
    """Network settings of tasks; `mode` is for EC2 alone, with bridge as the default."""

    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    assign_public_ip: bool = True
    mode: NetworkMode = ""


@dataclass(frozen=True)
class TokenSecret:
    """Source of the token in the container: plain text, or Secrets Manager (R117)."""

    kind: SecretKind = "PLAINTEXT"
    arn: str = ""
    name: str = SECRET_NAME


@dataclass(frozen=True)
class SpecProxy:
    """The proxy that the delegate reaches everything through (R061)."""

    host: str
    port: int = 3128
    scheme: Literal["http", "https"] = "http"
    user: str = ""
    password: str = ""
    no_proxy: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaBundle:
    """Trusted certificates in addition to the system's (R062); `host_path` is an optional host file."""

    path: str
    host_path: str = ""


@dataclass(frozen=True)
class SpecRequest:
    """Settings of a spec.

    An empty text means the documented value, or a placeholder for an unknown value (`aws_account_id`,
    `token`, subnets and security groups). `memory_mib` and `cpu` (in CPU units, 1024 to the vCPU) are the
    delegate's own; 0 is the documented size.
    """

    account_id: str
    manager_url: str
    image: str
    name: str = ""
    token: str = ""
    kind: Kind = "ECS"
    flavour: Flavour = "v3"
    launch_type: LaunchType = "FARGATE"
    hostname: str = ""
    tags: tuple[str, ...] = ()
    region: str = ""
    aws_account_id: str = ""
    network: SpecNetwork = field(default_factory=SpecNetwork)
    secret: TokenSecret = field(default_factory=TokenSecret)
    proxy: SpecProxy | None = None
    ca: CaBundle | None = None
    # ARNs of secrets with the text of certificates to trust, and with the password of the proxy's user.
    ca_secret: str = ""
    proxy_secret: str = ""
    cluster: str = ""
    service: str = ""
    family: str = ""
    log_group: str = ""
    execution_role: str = EXECUTION_ROLE
    task_role: str = ""
    # Whether the task role exists, so that no command creates or changes it before the service.
    task_role_exists: bool = False
    # Identifiers of the policies of `aws.policies` that the task role gets; empty for the documented ones.
    uses: tuple[str, ...] = ()
    cpu: int = 0
    memory_mib: int = 0
    desired_count: int = 1
    # Time from SIGTERM to SIGKILL, which the agent gets too; 0 leaves both at their defaults.
    stop_seconds: int = 0
    # Whether tasks pull the image from a copy in the registry of their account.
    mirrors_image: bool = False
    # Whether service and family are called after the delegate: the documented names serve one of a cluster.
    own_names: bool = False
    # Whether ECS replaces instances one after the other, each once the next has connected; older images and
    # the documented services do not.
    checks_start: bool = False
    # Whether the token is left out on purpose: nothing tells to replace its placeholder.
    hides_token: bool = False

    @property
    def is_fargate(self) -> bool:
        return self.kind == "ECS" and self.launch_type == "FARGATE"

    @property
    def is_awsvpc(self) -> bool:
        """Return whether each task has a network interface of its own."""
        return self.is_fargate or (self.kind == "ECS" and self.network.mode == "awsvpc")

    @property
    def uses_secret(self) -> bool:
        return self.kind == "ECS" and self.secret.kind != "PLAINTEXT"

    @property
    def has_plain_token(self) -> bool:
        """Return whether the token is among the variables."""
        return not self.uses_secret and self.kind not in _TOKEN_FILE_KINDS


class InvalidSpec(ValueError):
    """Error raised when a request has no valid spec; `faults` name the required changes."""

    def __init__(self, faults: list[InputProblem]) -> None:
        super().__init__(" ".join(fault.display_message for fault in faults))
        self.faults = faults


def validate_request(request: SpecRequest) -> None:
    """Check that a request has a valid spec. Raises `InvalidSpec`."""
    if faults := list(list_request_faults(request)):
        raise InvalidSpec(faults)


def list_request_faults(request: SpecRequest) -> Iterator[InputProblem]:
    """Return the problems of a request, each with its path."""
    yield from _find_choice_faults(request)
    yield from _find_stop_fault(request)
    yield from _find_text_faults(request)
    if request.kind == "ECS":
        yield from _find_aws_faults(request)
        yield from _find_uses_fault(request)
        yield from _find_network_faults(request)
        yield from _find_secret_faults(request)
    yield from _find_proxy_faults(request.proxy)
    yield from _find_ca_faults(request.ca)


def _find_choice_faults(request: SpecRequest) -> Iterator[InputProblem]:
    choices = {
        "kind": (request.kind, KINDS),
        "flavour": (request.flavour, ("legacy", "v3")),
        "launch_type": (request.launch_type, ("EC2", "FARGATE")),
        "network.mode": (request.network.mode, ("", "bridge", "host", "awsvpc")),
        "secret.kind": (request.secret.kind, ("PLAINTEXT", "EXISTING", "CREATE")),
    }
    for path, (value, allowed) in choices.items():
        if value not in allowed:
            yield _build_fault(
                path, "is not known", f"use {' or '.join(choice for choice in allowed if choice)}"
            )
    if request.flavour == "legacy" and request.kind in _TOKEN_FILE_KINDS:
        yield _build_fault("flavour", "is for ECS and Docker", "use v3")
    if not 1 <= request.desired_count <= DELEGATE_TASKS:
        yield _build_fault("desired_count", "is out of range", f"use 1 to {DELEGATE_TASKS:d}")
    if request.memory_mib and not 512 <= request.memory_mib <= 122_880:
        yield _build_fault("memory_mib", "is out of range", "use 512 to 122880 MiB")
    if request.cpu and not 128 <= request.cpu <= 16_384:
        yield _build_fault("cpu", "is out of range", "use 128 to 16384 CPU units; 1024 are one vCPU")


def _find_stop_fault(request: SpecRequest) -> Iterator[InputProblem]:
    most = FARGATE_STOP_SECONDS if request.is_fargate else MOST_STOP_SECONDS
    if request.stop_seconds and not LEAST_STOP_SECONDS <= request.stop_seconds <= most:
        yield _build_fault("stop_seconds", "is out of range", f"use {LEAST_STOP_SECONDS} to {most}")


def _find_text_faults(request: SpecRequest) -> Iterator[InputProblem]:
    if request.name and (fault := find_name_problem(request.name, NAME_CHARACTERS)):
        yield _build_fault("name", fault.reason, fault.remedy)
    for path in ("account_id", "token"):
        value = getattr(request, path)
        if (fault := find_control_problem(value)) or "\n" in value or "\r" in value:
            yield _build_fault(path, fault.reason if fault else "a line end is not allowed", "remove it")
    for problem in list_tag_problems(request.tags):
        yield InputProblem(problem.rstrip("."), path=("tags",))
    url = urlsplit(request.manager_url)
    if url.scheme not in ("http", "https") or not url.hostname or not request.manager_url.isprintable():
        yield _build_fault(
            "manager_url", "is not an address", "set PUBLIC_URL to the address that delegates reach"
        )
    if not _IMAGE.match(request.image):
        yield _build_fault("image", "is not the name of an image", "write it as registry/repository:tag")
    if request.hostname and (len(request.hostname) > 253 or not _HOSTNAME.match(request.hostname)):
        yield _build_fault("hostname", "is not a hostname", "use letters, digits, hyphens and dots")


def _find_aws_faults(request: SpecRequest) -> Iterator[InputProblem]:
    for path in ("cluster", "service", "family"):
        value = getattr(request, path)
        if value and not _AWS_NAME.match(value):
            fix = "begin with a letter or digit; use up to 255 letters, digits, _ and -"
            yield _build_fault(path, f"is not the name of a {path}", fix)
    for path in ("execution_role", "task_role"):
        value = getattr(request, path)
        if value and not _ROLE_NAME.match(value):
            yield _build_fault(path, "is not the name of a role", "use up to 64 letters, digits and _+=,.@-")
    if request.log_group and not _LOG_GROUP.match(request.log_group):
        yield _build_fault("log_group", "is not the name of a log group", "write it as /ecs/harness-delegate")
    if request.aws_account_id and not _ACCOUNT.match(request.aws_account_id):
        yield _build_fault("aws_account_id", "is not a 12-digit AWS account ID", "enter the 12 digits")
    if request.region and request.region not in {region.name for region in list_regions()}:
        yield _build_fault("region", "is not a region of AWS", "use a region such as us-east-1")


def _find_uses_fault(request: SpecRequest) -> Iterator[InputProblem]:
    if any(get_policy(use) is None for use in request.uses):
        yield _build_fault("uses", "names a policy that is not known", "use those that the form lists")


def _find_network_faults(request: SpecRequest) -> Iterator[InputProblem]:
    listed = (
        ("subnets", request.network.subnets, _SUBNET, "subnet-", MAX_SUBNETS),
        ("security_groups", request.network.security_groups, _GROUP, "sg-", MAX_GROUPS),
    )
    for name, values, pattern, prefix, most in listed:
        if len(values) > most:
            yield _build_fault(f"network.{name}", f"holds {len(values)}", f"AWS takes {most} at most")
        for number, value in enumerate(values):
            if not pattern.match(value):
                yield _build_fault(
                    f"network.{name}.{number}", "is not a valid ID", f"those begin with {prefix}"
                )
    if request.is_fargate and request.network.mode in ("bridge", "host"):
        reason = f"Fargate does not support {request.network.mode} networking"
        yield _build_fault("network.mode", reason, "leave it out, or choose EC2")


def _find_secret_faults(request: SpecRequest) -> Iterator[InputProblem]:
    secret = request.secret
    if secret.kind == "EXISTING" and not _SECRET_ARN.match(secret.arn):
        fix = "write it as arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME"
        yield _build_fault("secret.arn", "is not the ARN of a secret", fix)
    if secret.kind == "CREATE" and not _SECRET_NAME.match(secret.name):
        yield _build_fault("secret.name", "is not the name of a secret", "use letters, digits and /_+=.@-")

    for path, arn in (("ca_secret", request.ca_secret), ("proxy_secret", request.proxy_secret)):
        if arn and not _SECRET_ARN.match(arn):
            fix = "write it as arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME"
            yield _build_fault(path, "is not the ARN of a secret", fix)


def _find_proxy_faults(proxy: SpecProxy | None) -> Iterator[InputProblem]:
    if proxy is None:
        return
    yield from _list_proxy_texts(proxy)
    if not 1 <= proxy.port <= 65_535:
        yield _build_fault("proxy.port", "is not a port", "use 1 to 65535")
    if proxy.scheme not in ("http", "https"):
        yield _build_fault("proxy.scheme", "is not known", "use http or https")


def _list_proxy_texts(proxy: SpecProxy) -> Iterator[InputProblem]:
    if not _PROXY_WORD.match(proxy.host):
        yield _build_fault(
            "proxy.host", "is not a host", "enter a host name or IP address, without scheme and port"
        )
    for path, value in (("proxy.user", proxy.user), ("proxy.password", proxy.password)):
        if find_control_problem(value) or any(end in value for end in "\r\n"):
            yield _build_fault(path, "contains a character that is not allowed in a header", "remove it")
    for number, host in enumerate(proxy.no_proxy):
        if not re.fullmatch(r"[A-Za-z0-9.*:/_-]{1,255}", host):
            yield _build_fault(
                f"proxy.no_proxy.{number}", "is not a host", "enter a host name, an IP address or a network"
            )


def _find_ca_faults(ca: CaBundle | None) -> Iterator[InputProblem]:
    if ca is None:
        return
    for path, value in (("ca.path", ca.path), ("ca.host_path", ca.host_path or "/")):
        if not _PATH.match(value):
            yield _build_fault(
                path, "is not the path of a file", "begin it with /; use letters, digits and ._-"
            )


def _build_fault(path: str, message: str, fix: str) -> InputProblem:
    return InputProblem(message, fix, path=tuple(path.split(".")))
