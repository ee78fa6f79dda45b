"""The sizes that a person picks from for a delegate, as data (R063–R065, T17)."""

from dataclasses import dataclass
from typing import Final

OWN_USE: Final = (
    "Memory and CPU of a size are for the delegate alone. Its host, pod or container needs more, for the "
    "system and for Docker or Kubernetes."
)
RULE_OF_THUMB: Final = "One delegate serves 300 to 500 service instances, whatever applications they are of."


@dataclass(frozen=True)
class Size:
    """What a delegate gets as a whole; each of its `instances` gets an equal share.

    `cpu` is in CPU units, 1024 to the vCPU; `parallel_tasks` is what all instances do at the same time.
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


SIZES: Final[dict[str, Size]] = {
    size.identifier: size
    for size in (
        Size("laptop", "Laptop", 1, 2048, 512, 10),
        Size("small", "Small", 2, 4096, 1024, 20),
        Size("medium", "Medium", 4, 8192, 2048, 40),
        Size("large", "Large", 8, 16_384, 4096, 80),
    )
}
