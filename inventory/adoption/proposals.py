"""Adoption proposals: manifests read from AWS, and the check that their deployment changes nothing."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Self

import yaml

from aws.apis.ecs_types import parse_tags
from catalog.manifests.checks import check_manifest, check_with_task_definition, get_native_strategy
from catalog.manifests.documents import BadDocument, Document, parse_document
from catalog.manifests.yaml_drafts import represent_text
from catalog.operations import ManifestSpec
from inventory.adoption.live import publish_adoption_changed
from inventory.adoption.manifests import (
    ArtifactImage,
    build_manifests,
    get_main_image,
    insert_expressions,
)
from inventory.adoption.owners import describe_stack_owner
from inventory.adoption.pairs import build_traffic_pair, get_partner, is_pair_half, list_pair_target_groups
from inventory.adoption.refusals import check_pair, check_service, check_task_definition, check_texts
from inventory.adoption.traffic.options import TrafficOptions, find_traffic_options
from inventory.drift.comparison import build_running_documents
from inventory.drift.cursor import DriftCursor
from inventory.drift.desired_state import build_documents
from inventory.drift.documents.differences import ServiceDocuments, find_aws_defaults, find_differences
from inventory.drift.documents.field_rules import (
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
)
from inventory.models.adoption import Adoption
from inventory.models.drift import TaskDefinitionRevision
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from steps.actions.ecs_service.daemons import is_daemon
from steps.actions.ecs_service.snapshots import CONTROLLER_TOOLS, ECS, get_controller

SERVICE_NOT_FOUND_REASON: Final = "The ECS service or its task definition no longer exists."
_MANIFEST_IDENTIFIERS: Final = {
    TASK_DEFINITION: "task_definition",
    SERVICE_DEFINITION: "service_definition",
    SCALABLE_TARGET: "scalable_target",
    SCALING_POLICY: "scaling_policy",
}


@dataclass(frozen=True)
class AdoptionProposal:
    """The manifests and the artifact image that an adoption would create."""

    documents: ServiceDocuments
    image: ArtifactImage
    is_pair: bool
    controller: str = ECS
    """Deployment controller of the ECS service; the first run of the pipeline changes another one to ECS."""
    traffic_options: TrafficOptions = field(default_factory=TrafficOptions)

    @classmethod
    def of(cls, adoption: Adoption) -> Self:
        """Build the proposal of an adoption that is ready."""
        documents = load_documents(adoption.documents)
        image = get_main_image(documents.task_definition or {})
        is_pair = is_pair_half(adoption.ecs_service)
        controller = get_controller(adoption.ecs_service.description)
        return cls(documents, image, is_pair, controller, TrafficOptions.from_row(adoption.traffic))

    @property
    def manifests(self) -> list[ManifestSpec]:
        """Return the inline manifests of the service."""
        documents = insert_expressions(self.documents, self.image, is_pair=self.is_pair)
        return [
            ManifestSpec(identifier, kind, "Inline", content=render_manifest(value))
            for identifier, kind, value in _list_documents(documents)
        ]

    @property
    def strategies(self) -> tuple[str, ...]:
        """Return the strategies that can deploy the service, the default first."""
        if get_native_strategy(self.documents.service or {}):
            return ("Native",)
        if is_daemon(self.documents.service or {}):
            return ("Rolling",)
        return ("BlueGreen",) if self.is_pair else ("Rolling", "Canary")


def update_pending_adoptions(cluster: SyncedCluster, cursor: DriftCursor, now: datetime) -> bool:
    """Update the pending adoptions, in the transaction that ends the scan.

    Returns whether none was requested or changed after the start of the scan.
    """
    waiting = Adoption.objects.filter(ecs_service__cluster=cluster, state=Adoption.State.READING)
    rows = list(waiting.select_related("ecs_service"))
    arns = {row.ecs_service.task_definition for row in rows}
    revisions = {revision.arn: revision for revision in TaskDefinitionRevision.objects.filter(arn__in=arns)}
    pending_count = 0
    for row in rows:
        reasons = (
            [SERVICE_NOT_FOUND_REASON]
            if row.ecs_service.gone_at is not None
            else [*_list_sync_refusals(row.ecs_service)]
        )
        if reasons or _is_read(row.ecs_service, cursor):
            _update_adoption(row, cursor, revisions.get(row.ecs_service.task_definition), reasons, now)
        else:
            pending_count += 1
    return not pending_count


def _is_read(ecs_service: EcsServiceRecord, cursor: DriftCursor) -> bool:
    """Return whether this scan read the current state of the ECS service."""
    groups = set(list_pair_target_groups([ecs_service]))
    return ecs_service.task_definition in cursor.requested_revisions and groups <= set(
        cursor.traffic.target_groups
    )


def _list_sync_refusals(ecs_service: EcsServiceRecord) -> Iterator[str]:
    """Yield the obstacles that sync already knows."""
    yield from check_service(ecs_service.description)
    if is_pair_half(ecs_service):
        partner = get_partner(ecs_service)
        yield from check_pair(ecs_service.description, partner.description if partner else None)


def _update_adoption(
    row: Adoption,
    cursor: DriftCursor,
    revision: TaskDefinitionRevision | None,
    reasons: list[str],
    now: datetime,
) -> None:
    row.read_at, row.task_definition = now, row.ecs_service.task_definition
    if not reasons and revision is None:
        reasons = [SERVICE_NOT_FOUND_REASON]
    if not reasons and revision is not None:
        reasons = _store_documents(row, cursor, json.loads(revision.content))
    row.state = Adoption.State.REFUSED if reasons else Adoption.State.READY
    row.reason = "\n".join(reasons)
    row.save()
    publish_adoption_changed(row.pk)


def _store_documents(row: Adoption, cursor: DriftCursor, task_definition: Mapping[str, Any]) -> list[str]:
    """Store the running state as manifests, and return the reasons against adoption."""
    running = build_documents_to_keep(
        row.ecs_service,
        task_definition=task_definition,
        target=cursor.targets.get(row.ecs_service.name),
        policies=cursor.policies.get(row.ecs_service.name, {}),
    )
    controller = get_controller(row.ecs_service.description)
    manifests = build_manifests(running)
    row.documents, row.warnings = dump_documents(manifests.documents), list(manifests.warnings)
    if controller != ECS:
        row.warnings.append(_describe_change(controller))
    if owner := describe_stack_owner(parse_tags(row.ecs_service.description.get("tags"))):
        row.warnings.append(owner)
    if cursor.scaling_read_error:
        row.warnings.append(f"Could not read auto scaling: {cursor.scaling_read_error}")
    if is_pair_half(row.ecs_service):
        options = find_traffic_options(cursor.traffic, build_traffic_pair(row.ecs_service, task_definition))
        row.traffic = options.to_row()
        row.warnings += [*options.warnings, *options.missing]
    reasons = [*check_task_definition(task_definition)]
    reasons += check_texts(running.task_definition, running.service)
    return reasons or [*_list_changes(manifests.documents, running)]


def build_documents_to_keep(ecs_service: EcsServiceRecord, **documents: Any) -> ServiceDocuments:
    """Return the running state that an adoption keeps: with ECS as controller, which the first run sets.

    Takes the `documents` of `build_running_documents`.
    """
    running = build_running_documents(ecs_service, **documents)
    return replace(running, service={**(running.service or {}), "deploymentController": {"type": ECS}})


def _describe_change(controller: str) -> str:
    tool = CONTROLLER_TOOLS.get(controller, controller)
    return (
        f"The first run of the pipeline changes the deployment controller from {controller} to ECS, without "
        f"another ECS service. A failed run gives it back to {tool}. After a successful one, {tool} cannot "
        "deploy this service any more: turn off what starts its deployments."
    )


def _list_changes(documents: ServiceDocuments, running: ServiceDocuments) -> Iterator[str]:
    """Yield the reasons why deploying these manifests would change something."""
    values = {}
    for identifier, kind, value in _list_documents(documents):
        try:
            document = parse_document(render_manifest(value), identifier)
        except BadDocument as error:
            yield f"Could not create the manifest {identifier}: {error.message}"
            return
        check = check_manifest(kind, document)
        yield from (f"{identifier}, {problem.path}: {problem.message}" for problem in check.problems)
        values[identifier] = check.value
    yield from (problem.message for problem in _check_combination(values).problems)
    targets = [value for name, value in values.items() if name == _MANIFEST_IDENTIFIERS[SCALABLE_TARGET]]
    policies = [
        value for name, value in values.items() if name.startswith(_MANIFEST_IDENTIFIERS[SCALING_POLICY])
    ]
    read_back = build_documents(
        values[_MANIFEST_IDENTIFIERS[TASK_DEFINITION]],
        values[_MANIFEST_IDENTIFIERS[SERVICE_DEFINITION]],
        targets[0] if targets else None,
        policies,
    )
    if running.target is not None:
        read_back = ServiceDocuments(
            read_back.task_definition,
            read_back.service,
            None,
            read_back.target,
            read_back.policies,
            read_back.tags,
        )
    for problem in find_differences(read_back, running, aws_defaults=find_aws_defaults(read_back, running)):
        yield (
            f"{problem.document} {problem.path} would change with a deployment: its value cannot be read "
            "from AWS."
        )


def _check_combination(values: Mapping[str, Any]) -> Any:
    service = Document("service_definition", values[_MANIFEST_IDENTIFIERS[SERVICE_DEFINITION]])
    return check_with_task_definition(service, values[_MANIFEST_IDENTIFIERS[TASK_DEFINITION]])


def _list_documents(documents: ServiceDocuments) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for kind, value in (
        (TASK_DEFINITION, documents.task_definition),
        (SERVICE_DEFINITION, documents.service),
        (SCALABLE_TARGET, documents.target),
    ):
        if value is not None:
            yield _MANIFEST_IDENTIFIERS[kind], kind, value
    for number, policy in enumerate(documents.policies.values(), start=1):
        yield f"{_MANIFEST_IDENTIFIERS[SCALING_POLICY]}_{number}", SCALING_POLICY, policy


def render_manifest(value: Mapping[str, Any]) -> str:
    """Render a document as manifest text."""
    plain = json.loads(json.dumps(value, default=str))
    return str(yaml.dump(plain, Dumper=_ManifestDumper, sort_keys=False, allow_unicode=True, width=4096))


class _ManifestDumper(yaml.SafeDumper):
    """Dumper that repeats each value in full."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True: a manifest may not contain references."""
        return True


_ManifestDumper.add_representer(str, represent_text)


def dump_documents(documents: ServiceDocuments) -> str:
    """Serialize documents for a column."""
    return json.dumps(
        {
            TASK_DEFINITION: documents.task_definition,
            SERVICE_DEFINITION: documents.service,
            SCALABLE_TARGET: documents.target,
            SCALING_POLICY: list(documents.policies.values()),
        },
        default=str,
    )


def load_documents(text: str) -> ServiceDocuments:
    """Parse the documents of a column."""
    stored = json.loads(text)
    policies: Sequence[Mapping[str, Any]] = stored.get(SCALING_POLICY) or ()
    return build_documents(
        stored.get(TASK_DEFINITION),
        stored.get(SERVICE_DEFINITION) or {},
        stored.get(SCALABLE_TARGET),
        policies,
    )
