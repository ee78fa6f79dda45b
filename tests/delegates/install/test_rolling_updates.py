"""Instances of one delegate on ECS are replaced one after the other, each once its successor connected."""

from dataclasses import replace
from typing import Any

import pytest

from delegates.agent import VERSION
from delegates.install import write_spec
from delegates.install.documents import build_deployment_configuration
from delegates.install.specs import SpecRequest
from delegates.install.wizard import WizardAnswers
from tests.delegates.install.spec_variants import build_request


def complete(name: str = "eu", tag: str = VERSION, **answers: Any) -> SpecRequest:
    request = replace(build_request(), image=f"registry.example/slipway-delegate:{tag}")
    return WizardAnswers(aws_account_id="123456789012", **answers).completed(
        request, name=name, tags=(), size="small"
    )


def get_check(request: SpecRequest) -> Any:
    return write_spec(request).task_definition["containerDefinitions"][0].get("healthCheck")


def test_a_task_is_healthy_once_its_agent_has_connected() -> None:
    assert "http://127.0.0.1:8080/api/started" in get_check(complete())["command"][-1]


def test_images_that_may_not_know_the_check_and_documented_names_have_none() -> None:
    assert get_check(complete(tag="0.0.9")) is None
    assert get_check(complete(name="fargate-delegate")) is None
    assert get_check(complete(flavour="legacy")) is None


@pytest.mark.parametrize(("count", "maximum"), [(1, 200), (2, 150), (3, 134), (8, 113)])
def test_one_more_instance_may_run_and_none_fewer(count: int, maximum: int) -> None:
    assert build_deployment_configuration(count) == {
        "minimumHealthyPercent": 100,
        "maximumPercent": maximum,
    }
    # ECS rounds the maximum down to whole tasks.
    assert count * maximum // 100 == count + 1


def test_the_service_has_the_limits_as_file_and_as_flags() -> None:
    limits = {"minimumHealthyPercent": 100, "maximumPercent": 150}
    assert write_spec(complete()).service["deploymentConfiguration"] == limits
    created = next(
        c.command for c in write_spec(complete(target="EC2")).commands if "create-service" in c.command
    )
    assert "--deployment-configuration minimumHealthyPercent=100,maximumPercent=150" in created
