"""What is read back of an ECS service that is to be taken over, and the proof that nothing would change."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

import yaml

from deployments.catalog import ManifestSpec
from deployments.manifests.check import check_manifest, check_together
from deployments.manifests.document import BadDocument, Document, parse
from drift.desired import documents_of
from drift.documents.comparing import Documents, choices, differences
from drift.documents.readback import (
    Image,
    is_of_a_pair,
    main_image,
    read_back,
    with_expressions,
)
from drift.documents.shape import (
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
)
from drift.models import Adoption, KnownRevision
from drift.reading import Reading
from drift.running import running_documents
from instances.models import SyncedCluster

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

    @classmethod
    def of(cls, adoption: Adoption) -> Self:
        """What was read back for an adoption that is ready."""
        documents = from_row(adoption.documents)
        image = main_image(documents.task_definition or {})
        return cls(documents, image, is_of_a_pair(adoption.seen.name))

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
        arn = row.seen.task_definition
        if arn in revisions or arn in reading.wanted or row.seen.gone_at is not None:
            _settle(row, reading, revisions.get(arn), now)
        else:
            left += 1
    return not left


def _settle(row: Adoption, reading: Reading, revision: KnownRevision | None, now: datetime) -> None:
    row.read_at, row.task_definition = now, row.seen.task_definition
    reasons = [] if revision and row.seen.gone_at is None else [GONE]
    if not reasons and revision is not None:
        running = running_documents(
            row.seen,
            task_definition=json.loads(revision.content),
            target=reading.targets.get(row.seen.name),
            policies=reading.policies.get(row.seen.name, {}),
        )
        found = read_back(running)
        reasons = [*found.refusals] or [*_changes(found.documents, running)]
        row.documents, row.warnings = to_row(found.documents), list(found.warnings)
        if reading.scaling_unread:
            row.warnings.append(f"Its auto scaling is not read back: {reading.scaling_unread}")
    row.state = Adoption.State.REFUSED if reasons else Adoption.State.READY
    row.reason = "\n".join(reasons)
    row.save()


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
