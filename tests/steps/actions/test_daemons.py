"""What a DAEMON service cannot have is refused before anything is written."""

import pytest

from steps.actions.base import ActionFailed
from steps.actions.ecs_service.daemons import refuse_daemon, refuse_daemon_scaling

DAEMON = {"serviceName": "agent", "schedulingStrategy": "DAEMON"}
REPLICA = {"serviceName": "shop", "desiredCount": 2}


def test_auto_scaling_of_a_daemon_is_refused() -> None:
    with pytest.raises(ActionFailed, match="Remove the auto scaling manifests"):
        refuse_daemon_scaling(DAEMON, [{"MinCapacity": 1}])
    refuse_daemon_scaling(DAEMON, [])
    refuse_daemon_scaling(REPLICA, [{"MinCapacity": 1}])


def test_a_step_that_needs_a_count_names_the_one_that_does_not() -> None:
    with pytest.raises(ActionFailed, match="Deploy it with the step EcsRollingDeploy"):
        refuse_daemon(DAEMON)
    refuse_daemon(REPLICA)
