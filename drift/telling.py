"""Who changed what when, as far as AWS tells: who registered a revision, when a deployment began."""

from collections.abc import Mapping, Sequence

from aws.types import EcsService, last_part, moment
from drift.models import KnownRevision
from guards.text import clean
from instances.models import SeenService

LONGEST: int = 1000


def told(seen: SeenService, paths: Sequence[str], revisions: Mapping[str, KnownRevision], ours: str) -> str:
    """What is known of who made the changes in `paths`; `ours` is the revision that was deployed."""
    sentences = []
    if seen.task_definition != ours:
        sentences.append(_of_revision(seen.task_definition, revisions.get(seen.task_definition)))
        live = EcsService.from_aws(seen.answered)
        began = live.primary.created_at if live.primary else moment(None)
        if began is not None:
            sentences.append(f"The deployment that runs it began at {began:%Y-%m-%d %H:%M} UTC.")
    elif "desiredCount" in paths:
        sentences.append("Somebody asked ECS for another count; AWS does not tell who.")
    else:
        sentences.append(
            "ECS does not tell who did this; CloudTrail does, under UpdateService and calls of auto scaling."
        )
    return clean(" ".join(sentences))[:LONGEST]


def _of_revision(arn: str, revision: KnownRevision | None) -> str:
    name = last_part(arn)
    if revision is None:
        return f"It runs {name}, which no deployment of Slipway has registered."
    by = f" by {revision.registered_by}" if revision.registered_by else ""
    when = f" at {revision.registered_at:%Y-%m-%d %H:%M} UTC" if revision.registered_at else ""
    return f"It runs {name}, which no deployment of Slipway has registered; it was registered{by}{when}."
