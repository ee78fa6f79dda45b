"""What is read back of an ECS service that is to be taken over, and the proof that nothing would change."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self

import yaml

from catalog.manifests.check import check_manifest, check_together
from catalog.manifests.document import BadDocument, Document, parse
from catalog.operations import ManifestSpec
from inventory.drift.desired import documents_of
from inventory.drift.documents.comparing import Documents, choices, differences
from inventory.drift.documents.readback import Image, is_of_a_pair, main_image, read_back, with_expressions
from inventory.drift.documents.refusing import (
    refusals_of_pair,
    refusals_of_service,
    refusals_of_task_definition,
    refusals_of_texts,
)
from inventory.drift.documents.shape import (
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
)
from inventory.drift.news import adoption_changed
from inventory.drift.pairs import groups_to_read, is_half, pair_of, partner_of
from inventory.drift.reading import Reading
from inventory.drift.running import running_documents
from inventory.drift.traffic.fitting import Fit, fit
from inventory.models.drift import Adoption, KnownRevision
from inventory.models.instances import SeenService, SyncedCluster

GONE: Final = "The ECS service, or the task definition that it names, is not there any more."
_IDENTIFIERS: Final = {
    TASK_DEFINITION: "task_definition",
    SERVICE_DEFINITION: "service_definition",
    SCALABLE_TARGET: "scalable_target",
    SCALING_POLICY: "scaling_policy",
}


@dataclass(frozen=True)
class Proposal:
    """What would be made: the manifests as they would be kept, and the image that becomes the artifact."""

    documents: Documents
    image: Image
    is_pair: bool
    fit: Fit = field(default_factory=Fit)

    @classmethod
    def of(cls, adoption: Adoption) -> Self:
        """What was read back for an adoption that is ready."""
        documents = from_row(adoption.documents)
        image = main_image(documents.task_definition or {})
        is_pair = is_of_a_pair(adoption.seen.name, documents.service or {})
        return cls(documents, image, is_pair, Fit.from_row(adoption.traffic))

    @property
    def manifests(self) -> list[ManifestSpec]:
        """The manifests of the service, inline."""
        kept = with_expressions(self.documents, self.image, is_pair=self.is_pair)
        return [
            ManifestSpec(identifier, kind, "Inline", content=written(value))
            for identifier, kind, value in _parts(kept)
        ]

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies that can deploy it, the one that fits first."""
        return ("BlueGreen",) if self.is_pair else ("Rolling", "Canary")


def read_what_is_asked(cluster: SyncedCluster, reading: Reading, now: datetime) -> bool:
    """Settle the adoptions that wait for what this look has read; inside the commit that ends it.

    Says whether none is left that was asked for, or changed, since the look began.
    """
    waiting = Adoption.objects.filter(seen__cluster=cluster, state=Adoption.State.READING)
    rows = list(waiting.select_related("seen"))
    arns = {row.seen.task_definition for row in rows}
    revisions = {one.arn: one for one in KnownRevision.objects.filter(arn__in=arns)}
    left = 0
    for row in rows:
        reasons = [GONE] if row.seen.gone_at is not None else [*_refused_as_seen(row.seen)]
        if reasons or _is_read(row.seen, reading):
            _settle(row, reading, revisions.get(row.seen.task_definition), reasons, now)
        else:
            left += 1
    return not left


def _is_read(seen: SeenService, reading: Reading) -> bool:
    """Whether the look that ends was one for this ECS service as it is now."""
    groups = set(groups_to_read([seen]))
    return seen.task_definition in reading.wanted and groups <= set(reading.traffic.asked)


def _refused_as_seen(seen: SeenService) -> Iterator[str]:
    """What keeps it from being taken over that sync knows already: nothing has to be read for that."""
    yield from refusals_of_service(seen.answered)
    if is_half(seen):
        partner = partner_of(seen)
        yield from refusals_of_pair(seen.answered, partner.answered if partner else None)


def _settle(
    row: Adoption, reading: Reading, revision: KnownRevision | None, reasons: list[str], now: datetime
) -> None:
    row.read_at, row.task_definition = now, row.seen.task_definition
    if not reasons and revision is None:
        reasons = [GONE]
    if not reasons and revision is not None:
        reasons = _read(row, reading, json.loads(revision.content))
    row.state = Adoption.State.REFUSED if reasons else Adoption.State.READY
    row.reason = "\n".join(reasons)
    row.save()
    adoption_changed(row.pk)


def _read(row: Adoption, reading: Reading, task_definition: Mapping[str, Any]) -> list[str]:
    """Keep what runs as manifests, and say why it cannot be taken over."""
    running = running_documents(
        row.seen,
        task_definition=task_definition,
        target=reading.targets.get(row.seen.name),
        policies=reading.policies.get(row.seen.name, {}),
    )
    found = read_back(running)
    row.documents, row.warnings = to_row(found.documents), list(found.warnings)
    if reading.scaling_unread:
        row.warnings.append(f"Its auto scaling is not read back: {reading.scaling_unread}")
    if is_half(row.seen):
        fitting = fit(reading.traffic, pair_of(row.seen, task_definition))
        row.traffic = fitting.to_row()
        row.warnings += [*fitting.warnings, *fitting.lacking]
    refused = [*refusals_of_task_definition(task_definition)]
    refused += refusals_of_texts(running.task_definition, running.service)
    return refused or [*_changes(found.documents, running)]


def _changes(documents: Documents, running: Documents) -> Iterator[str]:
    """Why a deployment of these manifests would not leave things as they are; empty if it would."""
    sent = {}
    for identifier, kind, value in _parts(documents):
        try:
            document = parse(written(value), identifier)
        except BadDocument as bad:
            yield f"{identifier} cannot be written as a manifest: {bad.message}"
            return
        checked = check_manifest(kind, document)
        yield from (f"{identifier}, {one.path}: {one.message}" for one in checked.problems)
        sent[identifier] = checked.value
    yield from (one.message for one in _together(sent).problems)
    targets = [value for name, value in sent.items() if name == _IDENTIFIERS[SCALABLE_TARGET]]
    policies = [value for name, value in sent.items() if name.startswith(_IDENTIFIERS[SCALING_POLICY])]
    again = documents_of(
        sent[_IDENTIFIERS[TASK_DEFINITION]],
        sent[_IDENTIFIERS[SERVICE_DEFINITION]],
        targets[0] if targets else None,
        policies,
    )
    if running.target is not None:
        again = Documents(
            again.task_definition, again.service, None, again.target, again.policies, again.tags
        )
    for one in differences(again, running, chosen=choices(again, running)):
        yield f"{one.document} {one.path} would not stay as it is: Slipway cannot read it back."


def _together(sent: Mapping[str, Any]) -> Any:
    service = Document("service_definition", sent[_IDENTIFIERS[SERVICE_DEFINITION]])
    return check_together(service, sent[_IDENTIFIERS[TASK_DEFINITION]])


def _parts(documents: Documents) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for kind, value in (
        (TASK_DEFINITION, documents.task_definition),
        (SERVICE_DEFINITION, documents.service),
        (SCALABLE_TARGET, documents.target),
    ):
        if value is not None:
            yield _IDENTIFIERS[kind], kind, value
    for number, one in enumerate(documents.policies.values(), start=1):
        yield f"{_IDENTIFIERS[SCALING_POLICY]}_{number}", SCALING_POLICY, one


def written(value: Mapping[str, Any]) -> str:
    """A document as the text of a manifest."""
    plain = json.loads(json.dumps(value, default=str))
    return str(yaml.dump(plain, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=4096))


class _Plain(yaml.SafeDumper):
    """Writes each value where it is used."""

    def ignore_aliases(self, data: object) -> bool:
        """Write everything out: a manifest may hold no references."""
        return True


def to_row(documents: Documents) -> str:
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


def from_row(text: str) -> Documents:
    """The documents that a row keeps."""
    kept = json.loads(text)
    policies: Sequence[Mapping[str, Any]] = kept.get(SCALING_POLICY) or ()
    return documents_of(
        kept.get(TASK_DEFINITION), kept.get(SERVICE_DEFINITION) or {}, kept.get(SCALABLE_TARGET), policies
    )
