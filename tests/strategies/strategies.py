"""The strategies that every story is told of, one row each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Strategy:
    """One way to deploy, as the demo has it.

    `service` is the ECS service that a second run finds serving; `target_group` the one that stories put into
    a service definition which names none.
    """

    pipeline: str
    folder: str
    service: str
    steps: tuple[str, ...]
    target_group: str = "target1"
    has_breaker: bool = True
    file: str = "CreateServiceRequest.yaml"
    task_file: str = "RegisterTaskDefinitionRequest.yaml"

    @property
    def name(self) -> str:
        return self.pipeline.removesuffix("_demo")


ROLLING = Strategy(
    pipeline="rolling_demo",
    folder="/ECS Tutorial",
    service="myapp",
    steps=("ecs_rolling_deploy",),
)
CANARY = Strategy(
    pipeline="canary_demo",
    folder="/ECS Tutorial/Canary",
    service="webshop",
    steps=("ecs_canary_deploy", "ecs_canary_delete", "ecs_rolling_deploy"),
)
STRATEGIES = (ROLLING, CANARY)
