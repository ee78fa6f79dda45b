"""Times between two checks of a service deployment that ECS runs, by its lifecycle stage.

A success ends the stage CLEAN_UP, so checks are close only where the end can come before the next one. Old
tasks need about ten seconds to stop, and the stages between SCALE_UP and the end last about twenty.
"""

from datetime import timedelta
from typing import Final

from aws.apis.ecs_types import ServiceDeployment

OPEN_STATUSES: Final = ("PENDING", "IN_PROGRESS")
PAUSED: Final = "AWAITING_ACTION"
# Stages in which tasks start, so that their failures matter.
STARTING_STAGES: Final = ("", "SCALE_UP")
_EARLY_STAGES: Final = (*STARTING_STAGES, "RECONCILE_SERVICE", "PRE_SCALE_UP")
_SHIFT, _BAKE, _LAST_STAGE = "PRODUCTION_TRAFFIC_SHIFT", "BAKE_TIME", "CLEAN_UP"
_ALL: Final = 100.0
# After the write that starts a deployment, and while new tasks start, a hook pauses, or a part of the traffic
# is watched.
LONG_INTERVAL = timedelta(seconds=20)
# While the end needs more stages.
MEDIUM_INTERVAL = timedelta(seconds=10)
# While the end may come at any moment.
SHORT_INTERVAL = timedelta(seconds=5)
# In a bake time that no alarm may end.
BAKE_INTERVAL = timedelta(seconds=30)


def get_interval(deployment: ServiceDeployment, stage_age: timedelta) -> timedelta:
    """Return the time until the next check; `stage_age` is the time since a check first saw the stage."""
    stage = deployment.stage
    if deployment.status not in OPEN_STATUSES or stage == _LAST_STAGE:
        return SHORT_INTERVAL
    if stage in _EARLY_STAGES or _is_paused(deployment) or _is_shifted_in_part(deployment):
        return LONG_INTERVAL
    if stage == _BAKE and not deployment.has_alarms:
        remaining = timedelta(minutes=deployment.bake_minutes) - stage_age
        return min(max(remaining, MEDIUM_INTERVAL), BAKE_INTERVAL)
    return MEDIUM_INTERVAL


def _is_paused(deployment: ServiceDeployment) -> bool:
    return any(hook.status == PAUSED for hook in deployment.hooks)


def _is_shifted_in_part(deployment: ServiceDeployment) -> bool:
    weight = deployment.target.production_weight or 0.0
    return deployment.stage == _SHIFT and 0 < weight < _ALL
