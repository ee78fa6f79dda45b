"""A cluster that a real agent makes by a script, and the deployment that it then makes there."""

import json

import pytest

from catalog.models import Environment
from catalog.operations import InfrastructureSpec, create_infrastructure
from connectors.models import Connector
from deployments.execution.operations import run_pipeline
from deployments.models import AwsCall, StageExecution
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User
from tests.deployments.engine.conftest import pipeline_text
from tests.fixtures.script_gates import create_cluster
from tests.stories.delegate_deployments.conftest import StartDying
from tests.stories.delegate_deployments.demo_deployments import Work
from tests.stories.provisioning.conftest import OUTPUTS, script_step, staged, writing

pytestmark = pytest.mark.django_db(transaction=True)


def _script(work: Work) -> str:
    """The agent's own credentials stay with it: a script that needs some gets them as any other does."""
    return f"{create_cluster(work.aws.url, 'orders')}\n{writing(**OUTPUTS)}"


def test_an_agent_makes_the_cluster_and_then_deploys_into_it(work: Work, start: StartDying) -> None:
    start("one")
    admin, project = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    spec = InfrastructureSpec(
        "Made",
        Connector.objects.get(identifier="sandbox_aws"),
        "<+provisioner.region_name>",
        "<+provisioner.cluster_name>",
        is_dynamic=True,
    )
    environment = Environment.objects.get(identifier="dev")
    create_infrastructure(actor=admin, environment=environment, identifier="made", spec=spec)
    text = pipeline_text(staged(script_step(_script(work)).replace("[scripts]", "[prod]")))
    pipeline = save_pipeline(actor=admin, scope=project, yaml=text)
    mark = work.mark()
    execution = run_pipeline(actor=work.deployer, pipeline=pipeline, artifact_tag="1.27")
    work.until_over(execution)
    work.check_once(execution, after=mark)
    stage = StageExecution.objects.get(execution=execution)
    assert (stage.region, stage.cluster) == ("us-east-1", "orders")
    calls = AwsCall.objects.filter(execution=execution, service="ecs")
    assert calls.exists()
    assert all("orders" in json.dumps(call.preview) for call in calls if "cluster" in call.preview)
    assert all(hands[-1]["delegate"].startswith("one on ") for hands in work.list_served_by(execution))
