"""Wizard answers of a new delegate, and the sizes to choose from (R063-R065, T17)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, cast

from delegates.agent import VERSION
from delegates.install import CaBundle, SpecNetwork, SpecProxy, SpecRequest, TokenSecret
from delegates.install.images import parse_image
from delegates.install.plan import DOCUMENTED_NAMES
from delegates.install.specs import FARGATE_STOP_SECONDS, Kind, build_role_name, build_secret_name
from delegates.models import Delegate

OWN_USE_NOTE: Final = (
    "Memory and CPU of a size are for the delegate only. Its host, pod or container needs more for the OS "
    "and Docker or Kubernetes."
)
SIZING_NOTE: Final = "One delegate serves 300 to 500 service instances across all applications."


@dataclass(frozen=True)
class DelegateSize:
    """Size of a delegate; each of its `instances` gets an equal share.

    `cpu` is in CPU units, 1024 to the vCPU. `parallel_tasks` is the limit of all instances together.
    """

    identifier: str
    name: str
    instances: int
    memory_mib: int
    cpu: int
    parallel_tasks: int

    @property
    def instance_memory_mib(self) -> int:
        return self.memory_mib // self.instances

    @property
    def instance_cpu(self) -> int:
        return self.cpu // self.instances

    @property
    def sentence(self) -> str:
        number = f"{self.instances} instance{'' if self.instances == 1 else 's'}"
        return (
            f"{number}, {self.memory_mib // 1024} GB and {self.cpu / 1024:g} vCPU together, "
            f"{self.parallel_tasks} tasks at the same time"
        )


SIZES: Final[dict[str, DelegateSize]] = {
    size.identifier: size
    for size in (
        DelegateSize("laptop", "Laptop", 1, 2048, 512, 10),
        DelegateSize("small", "Small", 2, 4096, 1024, 20),
        DelegateSize("medium", "Medium", 4, 8192, 2048, 40),
        DelegateSize("large", "Large", 8, 16_384, 4096, 80),
    )
}
# Where a spec names its parts otherwise than the wizard's flat answers do.
_QUESTION_BY_PATH: Final = {
    "kind": "target",
    "launch_type": "target",
    "memory_mib": "size",
    "cpu": "size",
    "desired_count": "size",
    "token_id": "token",
    "network.mode": "network_mode",
    "network.subnets": "subnets",
    "network.security_groups": "security_groups",
    "proxy.no_proxy": "no_proxy",
}


@dataclass(frozen=True)
class WizardAnswers:
    """One answer for each question; empty where the documented value is fine."""

    target: str = "FARGATE"
    flavour: str = "v3"
    image: str = ""
    mirrors_image: bool = False
    region: str = ""
    aws_account_id: str = ""
    hostname: str = ""
    cluster: str = ""
    log_group: str = ""
    execution_role: str = ""
    task_role: str = ""
    uses: tuple[str, ...] = ()
    network_mode: str = ""
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    assign_public_ip: bool = True
    secret_kind: str = "PLAINTEXT"  # noqa: S105
    secret_arn: str = ""
    secret_name: str = ""
    proxy_host: str = ""
    proxy_port: int = 3128
    proxy_scheme: str = "http"
    proxy_user: str = ""
    no_proxy: tuple[str, ...] = ()
    ca_path: str = ""
    ca_host_path: str = ""
    ca_secret: str = ""
    proxy_secret: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "WizardAnswers":
        """Parse the output of `to_json`; unknown keys are ignored."""
        names = {field.name for field in fields(cls)}
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in stored.items()
            if name in names
        }
        return cls(**values)

    def with_own_secret(self, name: str) -> "WizardAnswers":
        """Return these answers with a name for the new secret of a delegate, if they have none."""
        return self if self.secret_name else replace(self, secret_name=build_secret_name(name))

    def with_own_role(self, name: str) -> "WizardAnswers":
        """Return these answers with a name for the task role that the uses of a delegate need.

        Without a use there is no task role, except one that exists.
        """
        own = build_role_name(name)
        if self.spec_kind != "ECS" or self.task_role not in ("", own):
            return self
        return replace(self, task_role=own if self.uses else "")

    @property
    def kind(self) -> str:
        """Return the kind of delegate for the chosen target."""
        return str(Delegate.Kind.DOCKER if self.spec_kind == "COMPOSE" else self.spec_kind)

    @property
    def spec_kind(self) -> Kind:
        """Return the platform of the files for the chosen target."""
        return "ECS" if self.target in ("FARGATE", "EC2") else cast(Kind, self.target)

    def completed(self, request: SpecRequest, *, name: str, tags: tuple[str, ...], size: str) -> SpecRequest:
        """Return the spec request for these answers; `request` supplies the installation's values."""
        picked, image = SIZES.get(size), self.image or request.image
        return replace(
            request,
            name=name,
            tags=tags,
            kind=self.spec_kind,
            flavour=request.flavour if self.spec_kind in ("ECS", "DOCKER") else "v3",
            image=image,
            # An image that only its builder has needs a mirror anyway.
            mirrors_image=self.spec_kind == "ECS" and (self.mirrors_image or parse_image(image).is_local),
            launch_type="EC2" if self.target == "EC2" else "FARGATE",
            region=self.region,
            aws_account_id=self.aws_account_id,
            hostname=self.hostname,
            cluster=self.cluster,
            log_group=self.log_group,
            execution_role=self.execution_role or request.execution_role,
            task_role=self.task_role,
            task_role_exists=self.task_role not in ("", build_role_name(name)),
            uses=self.uses,
            network=self._build_network,
            secret=self._build_secret,
            proxy=self._build_proxy,
            ca=CaBundle(self.ca_path, self.ca_host_path) if self.ca_path else None,
            ca_secret=self.ca_secret if self.spec_kind == "ECS" else "",
            proxy_secret=self.proxy_secret if self.spec_kind == "ECS" else "",
            cpu=picked.instance_cpu if picked else 0,
            memory_mib=picked.instance_memory_mib if picked else 0,
            desired_count=picked.instances if picked else 1,
            stop_seconds=FARGATE_STOP_SECONDS,
            own_names=name not in DOCUMENTED_NAMES,
            checks_start=self._knows_start(image) and name not in DOCUMENTED_NAMES,
        )

    def _knows_start(self, image: str) -> bool:
        """Return whether an image answers `/api/started`: one of this release, by its tag."""
        return self.spec_kind == "ECS" and self.flavour == "v3" and parse_image(image).tag == VERSION

    @property
    def _build_network(self) -> SpecNetwork:
        mode: Any = self.network_mode if self.target == "EC2" else ""
        return SpecNetwork(self.subnets, self.security_groups, self.assign_public_ip, mode)

    @property
    def _build_secret(self) -> TokenSecret:
        kind: Any = self.secret_kind if self.spec_kind == "ECS" else "PLAINTEXT"
        return (
            TokenSecret(kind, self.secret_arn, self.secret_name)
            if self.secret_name
            else TokenSecret(kind, self.secret_arn)
        )

    @property
    def _build_proxy(self) -> SpecProxy | None:
        if not self.proxy_host:
            return None
        scheme: Any = self.proxy_scheme
        return SpecProxy(self.proxy_host, self.proxy_port, scheme, self.proxy_user, "", self.no_proxy)


def get_question_name(path: str) -> str:
    """Return the question that a fault of a spec is about: "network.subnets.0" is about `subnets`."""
    named = ".".join(part for part in path.split(".") if not part.isdigit())
    return _QUESTION_BY_PATH.get(named) or named.replace(".", "_")
