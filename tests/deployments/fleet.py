"""Many ECS services with a pipeline each, and what AWS was asked while they were deployed."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from catalog.models import Artifact, Manifest, Service
from connectors.models import FileNode
from connectors.operations import save_file
from deployments.execution.operations import run_pipeline
from deployments.models import Execution
from ops.demo_pipelines import FOLDER, IMAGE, SERVICE_DEFINITION, TAG, TASK_DEFINITION
from pipelines.models import Pipeline
from rbac.models import Scope, User

WINDOW = timedelta(seconds=5)
SERVICES_PER_CALL = 10
WRITES = ("CreateService", "UpdateService")


@dataclass(frozen=True)
class Fleet:
    """Services of the demo project, all on one cluster."""

    deployer: User
    pipelines: tuple[Pipeline, ...]

    def start(self, tags: Sequence[str]) -> list[Execution]:
        """Run every pipeline, each with its tag."""
        return [
            run_pipeline(actor=self.deployer, pipeline=pipeline, artifact_tag=tag)
            for pipeline, tag in zip(self.pipelines, tags, strict=True)
        ]


def make_fleet(count: int, prefix: str = "fleet") -> Fleet:
    """Copy the demo's service, manifests and pipeline so often; the demo must be there."""
    project = Scope.objects.get(identifier="demo", kind=Scope.Kind.PROJECT)
    deployer = User.objects.get(username="deployer")
    return Fleet(deployer, tuple(_copy(project, f"{prefix}{number}") for number in range(count)))


def _copy(project: Scope, name: str) -> Pipeline:
    admin = User.objects.get(username="admin")
    service = Service.objects.create(scope=project, identifier=name, name=name)
    for identifier, kind, file, own in (
        ("task", Manifest.Kind.TASK_DEFINITION, TASK_DEFINITION, "family: fargate-task-definition"),
        ("service", Manifest.Kind.SERVICE_DEFINITION, SERVICE_DEFINITION, "serviceName: myapp"),
    ):
        path = f"/fleet/{name}-{identifier}.yaml"
        content = FileNode.objects.get(scope=project, path=f"{FOLDER}/{file}").content
        renamed = content.replace(own, f"{own.split(':')[0]}: {name}")
        save_file(actor=admin, scope=project, path=path, content=renamed)
        Manifest.objects.create(
            service=service, identifier=identifier, kind=kind, store="FileStore", paths=[path]
        )
    Artifact.objects.create(service=service, image=IMAGE, tag=TAG)
    demo = Pipeline.objects.get(scope=project, identifier="rolling_demo")
    yaml = demo.yaml.replace("rolling_demo", name).replace("serviceRef: myapp", f"serviceRef: {name}")
    return Pipeline.objects.create(scope=project, identifier=name, name=name, yaml=yaml)


@dataclass(frozen=True)
class Described:
    """One DescribeServices call that reached AWS."""

    at: datetime
    services: tuple[str, ...]


def described(journal: Sequence[dict[str, Any]]) -> list[Described]:
    """The DescribeServices calls of a journal, in order."""
    return [
        Described(datetime.fromisoformat(entry["at"]), tuple(entry["params"]["services"]))
        for entry in journal
        if entry["operation"] == "DescribeServices"
    ]


def worst_window(calls: Sequence[Described]) -> tuple[int, int]:
    """Of the five seconds after five seconds, those with the most calls beyond one for ten services.

    The calls made, and the calls allowed. A round of calls lies in the middle of its window.
    """
    began = calls[0].at - WINDOW / 2
    windows: dict[int, list[Described]] = defaultdict(list)
    for one in calls:
        windows[(one.at - began) // WINDOW].append(one)
    found = [
        (len(window), ceil(len({name for one in window for name in one.services}) / SERVICES_PER_CALL))
        for window in windows.values()
    ]
    return max(found, key=lambda pair: pair[0] - pair[1])
