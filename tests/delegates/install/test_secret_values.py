"""Certificates and the proxy password of a delegate on ECS come from secrets."""

import json

import pytest

from delegates.install import InvalidSpec, write_spec
from delegates.install.wizard import WizardAnswers
from tests.delegates.install.spec_variants import build_request

ARN = "arn:aws:secretsmanager:us-east-1:123456789012:secret:"


def test_fargate_reads_certificates_and_proxy_password_from_secrets() -> None:
    answers = WizardAnswers(
        proxy_host="proxy.internal", proxy_user="me", ca_secret=f"{ARN}ca", proxy_secret=f"{ARN}proxy"
    )
    spec = write_spec(answers.completed(build_request(), name="eu", tags=(), size=""))
    (container,) = spec.task_definition["containerDefinitions"]
    assert container["secrets"] == [
        {"name": "SLIPWAY_CA_PEM", "valueFrom": f"{ARN}ca"},
        {"name": "PROXY_PASSWORD", "valueFrom": f"{ARN}proxy"},
    ]
    assert "PROXY_PASSWORD" not in {variable["name"] for variable in container["environment"]}
    (statement,) = json.loads(spec.files["secret-policy.json"])["Statement"]
    assert {f"{ARN}ca", f"{ARN}proxy"} <= set(statement["Resource"])
    assert any("secret-policy.json" in command.command for command in spec.commands)


def test_a_name_is_not_the_arn_of_a_secret() -> None:
    with pytest.raises(InvalidSpec, match="not the ARN"):
        write_spec(build_request(ca_secret="ca"))
