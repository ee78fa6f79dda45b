"""Runs of Terraform Cloud: what is planned is applied, told line by line, and handed on."""

import pytest

from deployments.models import Call, StepExecution
from tests.deployments.driving import Drive
from tests.fixtures.terraform_cloud import TOKEN, Output, TerraformCloudServer
from tests.flow.conftest import Write
from tests.terraform_cloud.conftest import run_step, text_of
from tests.watching.marker import planted

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def outputs_of(execution: object, step: str = "provision") -> StepExecution:
    return StepExecution.objects.get(stage__execution=execution, identifier=step)


def test_a_run_is_planned_applied_and_its_outputs_are_known(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.outputs = [
        Output("cluster_name", "shop"),
        Output("zones", ["a", "b"]),
        Output("password", planted("s3cr3t-of-the-state"), is_sensitive=True),
    ]
    later = (
        "- step: {identifier: pause, type: Wait, spec: {duration: <+steps.provision.output.cluster_name>}}\n"
    )
    execution = ready(text_of(run_step(), later.replace("cluster_name", "time"))).start()
    terraform_cloud.outputs.append(Output("time", "3s"))
    drive.until_over(execution)
    assert execution.status == "SUCCESS", (execution.failure, drive.log(execution))
    step = outputs_of(execution)
    assert step.outputs["cluster_name"] == "shop"
    assert step.outputs["zones"] == '["a", "b"]'
    assert step.outputs["password"] == "•••"
    assert step.known_outputs["password"] == planted("s3cr3t-of-the-state")
    assert (step.outputs["planStatus"], step.outputs["resourcesToAdd"]) == ("CHANGES", 1)
    told = drive.log(execution)
    for line in (
        "aws_ecs_cluster.main will be created",
        "Apply complete! Resources: 1 added.",
        "Plan: 1 to add.",
    ):
        assert told.count(line) == 1, told
    assert "Output password = (sensitive)" in told
    assert len(terraform_cloud.sent("POST", "^runs$")) == 1
    kept = "".join(call.parameters + str(call.preview) + call.result for call in Call.objects.all())
    assert TOKEN not in kept
    logs = [headers for verb, _, _, headers in terraform_cloud.asked if verb == "LOG"]
    assert logs
    assert not any("Authorization" in headers for headers in logs)
