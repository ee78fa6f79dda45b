"""Time to stop: the platform kills when the agent expects it, by one setting."""

import pytest
import yaml

from delegates.install import InvalidSpec, write_spec
from delegates.install.documents import list_environment_variables
from delegates.install.plan import SpecPlan
from delegates.install.specs import SpecRequest
from delegates.install.wizard import WizardAnswers
from tests.delegates.install.spec_variants import build_request

VARIABLE = ("SLIPWAY_DELEGATE_STOP_SECONDS", "120")


def complete(target: str) -> SpecRequest:
    answers = WizardAnswers(target=target, aws_account_id="123456789012")
    return answers.completed(build_request(), name="eu", tags=(), size="")


@pytest.mark.parametrize("target", ["FARGATE", "EC2"])
def test_ecs_waits_as_long_as_the_agent_drains(target: str) -> None:
    request = complete(target)
    assert write_spec(request).task_definition["containerDefinitions"][0]["stopTimeout"] == 120
    assert VARIABLE in list_environment_variables(SpecPlan(request))


def test_docker_waits_as_long_as_the_agent_drains() -> None:
    request = complete("DOCKER")
    spec = write_spec(request)
    (service,) = yaml.safe_load(spec.files["compose.yaml"])["services"].values()
    assert service["stop_grace_period"] == "120s"
    assert service["environment"][VARIABLE[0]] == "120"
    assert "--stop-timeout 120" in spec.commands[0].command


def test_fargate_waits_two_minutes_at_most() -> None:
    with pytest.raises(InvalidSpec, match="20 to 120"):
        write_spec(build_request(stop_seconds=121))
    assert write_spec(build_request("v3", "EC2", stop_seconds=600)).task_definition
