"""Proposals of adoptions: manifests read back, and the check that deploying them changes nothing."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self

import yaml

from catalog.manifests.checks import check_manifest, check_with_task_definition
from catalog.manifests.documents import BadDocument, Document, parse_document
from catalog.operations import ManifestSpec
from inventory.adoption.live import publish_adoption_changed
from inventory.adoption.manifests import (
    ArtifactImage,
    build_manifests,
    get_main_image,
    insert_expressions,
    is_blue_green_half,
)
from inventory.adoption.pairs import build_traffic_pair, get_partner, is_pair_half, list_pair_target_groups
from inventory.adoption.refusals import check_pair, check_service, check_task_definition, check_texts
from inventory.adoption.traffic.options import TrafficOptions, find_traffic_options
from inventory.drift.cursor import DriftCursor
from inventory.drift.desired_state import build_documents
from inventory.drift.documents.differences import ServiceDocuments, find_aws_defaults, find_differences
from inventory.drift.documents.field_rules import (
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
)
from inventory.drift.running_state import build_running_documents
from inventory.models.adoption import Adoption
from inventory.models.drift import TaskDefinitionRevision
from inventory.models.instances import EcsServiceRecord, SyncedCluster

SERVICE_NOT_FOUND_REASON: Final = (
    "The ECS service, or the task definition that it names, is not there any more."
)
_MANIFEST_IDENTIFIERS: Final = {
    TASK_DEFINITION: "task_definition",
    SERVICE_DEFINITION: "service_definition",
    SCALABLE_TARGET: "scalable_target",
    SCALING_POLICY: "scaling_policy",
}


@dataclass(frozen=True)
class AdoptionProposal:
    """What would be made: the manifests as they would be kept, and the image that becomes the artifact."""

    documents: ServiceDocuments
    image: ArtifactImage
    is_pair: bool
    traffic_options: TrafficOptions = field(default_factory=TrafficOptions)

    @classmethod
    def of(cls, adoption: Adoption) -> Self:
        """What was read back for an adoption that is ready."""
        documents = load_documents(adoption.documents)
        image = get_main_image(documents.task_definition or {})
        is_pair = is_blue_green_half(adoption.ecs_service.name, documents.service or {})
        return cls(documents, image, is_pair, TrafficOptions.from_row(adoption.traffic))

    @property
    def manifests(self) -> list[ManifestSpec]:
        """The manifests of the service, inline."""
        kept = insert_expressions(self.documents, self.image, is_pair=self.is_pair)
        return [
            ManifestSpec(identifier, kind, "Inline", content=render_manifest(value))
            for identifier, kind, value in _list_documents(kept)
        ]

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies that can deploy it, the one that fits first."""
        return ("BlueGreen",) if self.is_pair else ("Rolling", "Canary")


def update_pending_adoptions(cluster: SyncedCluster, reading: DriftCursor, now: datetime) -> bool:
    """Settle the adoptions that wait for what this look has read; inside the commit that ends it.

    Says whether none is left that was asked for, or changed, since the look began.
    """
    waiting = Adoption.objects.filter(ecs_service__cluster=cluster, state=Adoption.State.READING)
    rows = list(waiting.select_related("ecs_service"))
    arns = {row.ecs_service.task_definition for row in rows}
    revisions = {one.arn: one for one in TaskDefinitionRevision.objects.filter(arn__in=arns)}
    left = 0
    for row in rows:
        reasons = (
            [SERVICE_NOT_FOUND_REASON]
            if row.ecs_service.gone_at is not None
            else [*_list_sync_refusals(row.ecs_service)]
        )
        if reasons or _is_read(row.ecs_service, reading):
            _update_adoption(row, reading, revisions.get(row.ecs_service.task_definition), reasons, now)
        else:
            left += 1
    return not left


def _is_read(seen: EcsServiceRecord, reading: DriftCursor) -> bool:
    """Whether the look that ends was one for this ECS service as it is now."""
    groups = set(list_pair_target_groups([seen]))
    return seen.task_definition in reading.requested_revisions and groups <= set(
        reading.traffic.target_groups
    )


def _list_sync_refusals(seen: EcsServiceRecord) -> Iterator[str]:
    """What keeps it from being taken over that sync knows already: nothing has to be read for that."""
    yield from check_service(seen.description)
    if is_pair_half(seen):
        partner = get_partner(seen)
        yield from check_pair(seen.description, partner.description if partner else None)


def _update_adoption(
    row: Adoption,
    reading: DriftCursor,
    revision: TaskDefinitionRevision | None,
    reasons: list[str],
    now: datetime,
) -> None:
    row.read_at, row.task_definition = now, row.ecs_service.task_definition
    if not reasons and revision is None:
        reasons = [SERVICE_NOT_FOUND_REASON]
    if not reasons and revision is not None:
        reasons = _store_documents(row, reading, json.loads(revision.content))
    row.state = Adoption.State.REFUSED if reasons else Adoption.State.READY
    row.reason = "\n".join(reasons)
    row.save()
    publish_adoption_changed(row.pk)


def _store_documents(row: Adoption, reading: DriftCursor, task_definition: Mapping[str, Any]) -> list[str]:
    """Keep what runs as manifests, and say why it cannot be taken over."""
    running = build_running_documents(
        row.ecs_service,
        task_definition=task_definition,
        target=reading.targets.get(row.ecs_service.name),
        policies=reading.policies.get(row.ecs_service.name, {}),
    )
    found = build_manifests(running)
    row.documents, row.warnings = dump_documents(found.documents), list(found.warnings)
    if reading.scaling_read_error:
        row.warnings.append(f"Its auto scaling is not read back: {reading.scaling_read_error}")
    if is_pair_half(row.ecs_service):
        fitting = find_traffic_options(reading.traffic, build_traffic_pair(row.ecs_service, task_definition))
        row.traffic = fitting.to_row()
        row.warnings += [*fitting.warnings, *fitting.missing]
    refused = [*check_task_definition(task_definition)]
    refused += check_texts(running.task_definition, running.service)
    return refused or [*_list_changes(found.documents, running)]


def _list_changes(documents: ServiceDocuments, running: ServiceDocuments) -> Iterator[str]:
    """Why a deployment of these manifests would not leave things as they are; empty if it would."""
    sent = {}
    for identifier, kind, value in _list_documents(documents):
        try:
            document = parse_document(render_manifest(value), identifier)
        except BadDocument as bad:
            yield f"{identifier} cannot be written as a manifest: {bad.message}"
            return
        checked = check_manifest(kind, document)
        yield from (f"{identifier}, {one.path}: {one.message}" for one in checked.problems)
        sent[identifier] = checked.value
    yield from (one.message for one in _merge_texts(sent).problems)
    targets = [value for name, value in sent.items() if name == _MANIFEST_IDENTIFIERS[SCALABLE_TARGET]]
    policies = [
        value for name, value in sent.items() if name.startswith(_MANIFEST_IDENTIFIERS[SCALING_POLICY])
    ]
    again = build_documents(
        sent[_MANIFEST_IDENTIFIERS[TASK_DEFINITION]],
        sent[_MANIFEST_IDENTIFIERS[SERVICE_DEFINITION]],
        targets[0] if targets else None,
        policies,
    )
    if running.target is not None:
        again = ServiceDocuments(
            again.task_definition, again.service, None, again.target, again.policies, again.tags
        )
    for one in find_differences(again, running, aws_defaults=find_aws_defaults(again, running)):
        yield f"{one.document} {one.path} would not stay as it is: Slipway cannot read it back."


def _merge_texts(sent: Mapping[str, Any]) -> Any:
    service = Document("service_definition", sent[_MANIFEST_IDENTIFIERS[SERVICE_DEFINITION]])
    return check_with_task_definition(service, sent[_MANIFEST_IDENTIFIERS[TASK_DEFINITION]])


def _list_documents(documents: ServiceDocuments) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for kind, value in (
        (TASK_DEFINITION, documents.task_definition),
        (SERVICE_DEFINITION, documents.service),
        (SCALABLE_TARGET, documents.target),
    ):
        if value is not None:
            yield _MANIFEST_IDENTIFIERS[kind], kind, value
    for number, one in enumerate(documents.policies.values(), start=1):
        yield f"{_MANIFEST_IDENTIFIERS[SCALING_POLICY]}_{number}", SCALING_POLICY, one


def render_manifest(value: Mapping[str, Any]) -> str:
    """A document as the text of a manifest."""
    plain = json.loads(json.dumps(value, default=str))
    return str(yaml.dump(plain, Dumper=_ManifestDumper, sort_keys=False, allow_unicode=True, width=4096))


class _ManifestDumper(yaml.SafeDumper):
    """Writes each value where it is used."""

    def ignore_aliases(self, data: object) -> bool:
        """Write everything out: a manifest may hold no references."""
        return True


def dump_documents(documents: ServiceDocuments) -> str:
    """The documents as a row keeps them."""
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
    """The documents that a row keeps."""
    kept = json.loads(text)
    policies: Sequence[Mapping[str, Any]] = kept.get(SCALING_POLICY) or ()
    return build_documents(
        kept.get(TASK_DEFINITION), kept.get(SERVICE_DEFINITION) or {}, kept.get(SCALABLE_TARGET), policies
    )
