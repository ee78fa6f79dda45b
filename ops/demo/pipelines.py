"""Demo pipelines, one per strategy, each with a service and manifests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from catalog.models import Artifact, Manifest, Service
from connectors.models import FileNode
from connectors.operations import save_file
from pipelines.models import Pipeline
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User

SAMPLES = Path(__file__).parent / "samples"
FOLDER = "/ECS Tutorial"
TASK_DEFINITION = "RegisterTaskDefinitionRequest.yaml"
SERVICE_DEFINITION = "CreateServiceRequest.yaml"
RUN_TASK_REQUEST = "RunTaskRequest.yaml"
# The files of a demo by the samples that they are made of.
SERVICE_SAMPLES = {TASK_DEFINITION: TASK_DEFINITION, SERVICE_DEFINITION: SERVICE_DEFINITION}
NATIVE_SAMPLES = {**SERVICE_SAMPLES, SERVICE_DEFINITION: "CreateNativeServiceRequest.yaml"}
BLUE_GREEN_SAMPLES = {**SERVICE_SAMPLES, SERVICE_DEFINITION: "CreateBlueGreenServiceRequest.yaml"}
RUN_TASK_SAMPLES = {TASK_DEFINITION: TASK_DEFINITION, RUN_TASK_REQUEST: RUN_TASK_REQUEST}
MANIFEST_KINDS = (
    ("task def", Manifest.Kind.TASK_DEFINITION, TASK_DEFINITION),
    ("service def", Manifest.Kind.SERVICE_DEFINITION, SERVICE_DEFINITION),
)
IMAGE, TAG = "library/nginx", "1.27"


@dataclass(frozen=True)
class SandboxFacts:
    """The names in the pretend account that the demo's manifests need."""

    region: str
    cluster: str
    subnets: tuple[str, ...]
    security_group: str
    role_arn: str
    load_balancer: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_wire(cls, seed: dict[str, Any]) -> "SandboxFacts":
        """Parse the response of GET /sandbox/seed."""
        return cls(
            region=seed["region"],
            cluster=seed["cluster"],
            subnets=tuple(seed["subnets"]),
            security_group=seed["security_group"],
            role_arn=seed["execution_role_arn"],
            load_balancer=seed["load_balancer"],
        )

    def values(self) -> dict[str, str]:
        """Return the values of the samples' placeholders."""
        placeholders = {
            "role_arn": self.role_arn,
            "region": self.region,
            "subnets": json.dumps(self.subnets),
            "security_groups": json.dumps([self.security_group]),
        }
        if balancer := self.load_balancer:
            prod, stage = balancer["prod_listener"], balancer["stage_listener"]
            placeholders |= {
                "load_balancer": balancer["arn"],
                "prod_listener": prod["arn"],
                "prod_rule": prod["default_rule_arn"],
                "stage_listener": stage["arn"],
                "stage_rule": stage["default_rule_arn"],
                "prod_path_rule": prod["path_rule_arn"],
                "prod_path_group": prod["path_target_group"],
                "stage_path_rule": stage["path_rule_arn"],
                "stage_path_group": stage["path_target_group"],
            }
        return placeholders


@dataclass(frozen=True)
class DemoPipeline:
    """Demo pipeline with its service and the location of the manifests."""

    pipeline: str
    service: str
    name: str
    folder: str
    ecs_service: str
    family: str
    count: int = 1
    tag: str = TAG
    samples: Mapping[str, str] = field(default_factory=lambda: SERVICE_SAMPLES)
    needs_load_balancer: bool = False


DEMO_PIPELINES = (
    DemoPipeline(
        pipeline="rolling_demo",
        service="myapp",
        name="My app",
        folder=FOLDER,
        ecs_service="myapp",
        family="fargate-task-definition",
    ),
    DemoPipeline(
        pipeline="canary_demo",
        service="canary_app",
        name="Canary app",
        folder=f"{FOLDER}/Canary",
        ecs_service="webshop",
        family="webshop",
        count=2,
    ),
    DemoPipeline(
        pipeline="blue_green_demo",
        service="blue_green_app",
        name="Blue/green app",
        folder=f"{FOLDER}/Blue green",
        ecs_service="storefront",
        family="storefront",
        samples=BLUE_GREEN_SAMPLES,
        needs_load_balancer=True,
    ),
    # The same service: its traffic moves by parts instead of all at once.
    DemoPipeline(
        pipeline="traffic_shift_demo",
        service="blue_green_app",
        name="Blue/green app",
        folder=f"{FOLDER}/Blue green",
        ecs_service="storefront",
        family="storefront",
        samples=BLUE_GREEN_SAMPLES,
        needs_load_balancer=True,
    ),
    DemoPipeline(
        pipeline="native_demo",
        service="native_app",
        name="Native app",
        folder=f"{FOLDER}/Native",
        ecs_service="api",
        family="api",
        samples=NATIVE_SAMPLES,
        needs_load_balancer=True,
    ),
    DemoPipeline(
        pipeline="run_task_demo",
        service="job_app",
        name="Job",
        folder=f"{FOLDER}/Run task",
        ecs_service="",
        family="nightly-job",
        tag="done",
        samples=RUN_TASK_SAMPLES,
    ),
)


def seed_pipeline(demo: DemoPipeline, *, admin: User, project: Scope, facts: SandboxFacts) -> None:
    """Create the missing rows of one demo."""
    if demo.needs_load_balancer and not facts.load_balancer:
        return
    values = {
        **facts.values(),
        "ecs_service": demo.ecs_service,
        "family": demo.family,
        "count": str(demo.count),
        "folder": demo.folder,
    }
    for name, sample in demo.samples.items():
        path = f"{demo.folder}/{name}"
        if not FileNode.objects.filter(scope=project, path=path).exists():
            save_file(actor=admin, scope=project, path=path, content=_render_sample(sample, values))
    _create_service(demo, project)
    if not Pipeline.with_deleted.filter(scope=project, identifier=demo.pipeline).exists():
        save_pipeline(actor=admin, scope=project, yaml=_render_sample(f"{demo.pipeline}.yaml", values))


def _render_sample(sample: str, values: Mapping[str, str]) -> str:
    return Template((SAMPLES / sample).read_text()).substitute(values)


def _create_service(demo: DemoPipeline, project: Scope) -> None:
    service, is_new = Service.objects.get_or_create(
        scope=project, identifier=demo.service, defaults={"name": demo.name}
    )
    if not is_new:
        return
    for identifier, kind, name in MANIFEST_KINDS if SERVICE_DEFINITION in demo.samples else ():
        paths = [f"{demo.folder}/{name}"]
        Manifest.objects.create(
            service=service, identifier=identifier, kind=kind, store="FileStore", paths=paths
        )
    Artifact.objects.create(service=service, image=IMAGE, tag=demo.tag)
