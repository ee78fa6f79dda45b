"""Stages that make their cluster by a script, and then deploy into it."""

import json
from collections.abc import Callable
from textwrap import indent

import pytest

from catalog.models import Environment, Infrastructure
from catalog.operations import InfrastructureSpec, create_infrastructure
from connectors.models import Connector
from rbac.models import User
from tests.deployments.conftest import _full_buckets, drive
from tests.deployments.engine.conftest import DEPLOY, write
from tests.fixtures.engine_driver import Drive
from tests.fixtures.script_gates import create_cluster
from tests.steps.kinds.conftest import Worker, worker

__all__ = ["_full_buckets", "drive", "worker", "write"]

OUTPUTS = {"region_name": "us-east-1", "cluster_name": "orders"}
STAGE = """
- stage:
    identifier: {name}
    type: Deployment
    spec:
      deploymentType: ECS
      service: {{serviceRef: myapp}}
      environment:
        environmentRef: dev
        infrastructureDefinitions: [{{identifier: {place}}}]{provisioner}
      execution:
        steps:
{steps}
        rollbackSteps:
          - step: {{identifier: back_{name}, type: EcsRollingRollback}}
"""
Place = Callable[..., Infrastructure]


def script_step(script: str, name: str = "make", more: str = "") -> str:
    """A step that makes infrastructure by a script at delegates with the tag `scripts`."""
    return f"""
- step:
    identifier: {name}
    type: ShellScriptProvision
    delegateSelectors: [scripts]
    spec:
      script: |
{indent(script, " " * 8)}
{indent(more, " " * 6)}
"""


def writing(**outputs: object) -> str:
    """A script that hands on these outputs."""
    return f"cat > \"$PROVISIONER_OUTPUT_PATH\" <<'END'\n{json.dumps(outputs)}\nEND"


def build_make_script(drive: Drive, **outputs: object) -> str:
    """A script that makes the cluster of `cluster_name` in the sandbox, and hands on its outputs."""
    cluster, region = outputs["cluster_name"], outputs["region_name"]
    return f"{create_cluster(drive.sandbox.url, str(cluster), str(region))}\n{writing(**outputs)}"


def staged(provisioner: str, steps: str = DEPLOY, *, place: str = "made", name: str = "app") -> str:
    """One stage whose provisioner has these steps."""
    inside = f"\n        provisioner:\n          steps:\n{indent(provisioner.strip(chr(10)), ' ' * 12)}"
    return STAGE.format(
        name=name,
        place=place,
        provisioner=inside * bool(provisioner),
        steps=indent(steps.strip("\n"), " " * 10),
    )


@pytest.fixture
def place(drive: Drive) -> Place:
    """Makes an infrastructure whose region and cluster are outputs of a provisioner."""

    def make(
        region: str = "<+provisioner.region_name>",
        cluster: str = "<+provisioner.cluster_name>",
        name: str = "made",
    ) -> Infrastructure:
        return create_infrastructure(
            actor=User.objects.get(username="admin"),
            environment=Environment.objects.get(identifier="dev"),
            identifier=name,
            spec=InfrastructureSpec(
                name.title(),
                Connector.objects.get(identifier="sandbox_aws"),
                region,
                cluster,
                is_dynamic=True,
            ),
        )

    return make


__all__ += ["Worker"]
