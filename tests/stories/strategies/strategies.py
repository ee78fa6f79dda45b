"""The strategies that every story is told of, one row each."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Strategy:
    """One way to deploy, as the demo has it.

    `app` is its service, `is_of_service` whether that runs as an ECS service; `target_group` the one that
    stories put into a service definition that names none; `overtaken_in` the step in which somebody else's
    deployment comes between; `versions` tags that end well, one after the other; `beginnings` how many
    deployments there are before a further one finds what every later one finds; `is_observed_in_batches`
    whether its ECS service is read together with others; `canary_percent` the share of the traffic of its
    canary, for which the pipeline is changed.
    """

    pipeline: str
    folder: str
    app: str
    steps: tuple[str, ...]
    target_group: str = ""
    overtaken_in: str = ""
    has_breaker: bool = False
    rolls_back: bool = True
    versions: tuple[str, str, str, str] = ("1.27", "1.28", "1.29", "1.30")
    is_of_service: bool = True
    beginnings: int = 1
    is_observed_in_batches: bool = True
    canary_percent: int = 0

    @property
    def name(self) -> str:
        share = "_share" if self.canary_percent else ""
        return f"{self.pipeline.removesuffix('_demo')}{share}"


ROLLING = Strategy(
    pipeline="rolling_demo",
    folder="/ECS Tutorial",
    app="myapp",
    steps=("ecs_rolling_deploy",),
    target_group="target1",
    overtaken_in="ecs_rolling_deploy",
    has_breaker=True,
)
CANARY = Strategy(
    pipeline="canary_demo",
    folder="/ECS Tutorial/Canary",
    app="canary_app",
    steps=("ecs_canary_deploy", "ecs_canary_delete", "ecs_rolling_deploy"),
    target_group="target1",
    overtaken_in="ecs_rolling_deploy",
    has_breaker=True,
)
CANARY_SHARE = replace(CANARY, canary_percent=10)
BLUE_GREEN = Strategy(
    pipeline="blue_green_demo",
    folder="/ECS Tutorial/Blue green",
    app="blue_green_app",
    steps=("ecs_blue_green_create", "ecs_blue_green_swap"),
    overtaken_in="ecs_blue_green_create",
    beginnings=2,
)
TRAFFIC_SHIFT = Strategy(
    pipeline="traffic_shift_demo",
    folder="/ECS Tutorial/Blue green",
    app="blue_green_app",
    steps=("ecs_blue_green_create", "ecs_blue_green_traffic_shift", "ecs_blue_green_swap"),
    overtaken_in="ecs_blue_green_create",
    beginnings=2,
)
NATIVE = Strategy(
    pipeline="native_demo",
    folder="/ECS Tutorial/Native",
    app="native_app",
    steps=("ecs_native_deploy",),
    overtaken_in="ecs_native_deploy",
    is_observed_in_batches=False,
)
RUN_TASK = Strategy(
    pipeline="run_task_demo",
    folder="/ECS Tutorial/Run task",
    app="job_app",
    is_of_service=False,
    is_observed_in_batches=False,
    steps=("ecs_run_task",),
    rolls_back=False,
    versions=("done", "done", "done", "done"),
)
STRATEGIES = (ROLLING, CANARY, CANARY_SHARE, BLUE_GREEN, TRAFFIC_SHIFT, NATIVE, RUN_TASK)
