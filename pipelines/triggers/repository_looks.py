"""Looks at image repositories: tags that are new, or have moved to another digest, are pushes.

ECR lists all tags with their digests. Registries list names; a look reads the digests of the new tags, and of
those of the others whose last read is the oldest.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from connectors.models import Connector
from connectors.queries import find_connector
from delegates.access.aws_access import ConnectorUnavailable
from delegates.access.images import ImageTag, ImageTags
from delegates.access.lookup_requests import read_images
from delegates.models import LookupRequest
from guards.limits import REGISTRY_DIGESTS, REGISTRY_TAGS, TRIGGER_EVENTS_PER_LOOK
from pipelines.models import TriggerWatch
from pipelines.triggers.kinds.image import (
    CONNECTOR,
    CONNECTOR_KINDS,
    REGION,
    TAGS,
    build_found_event,
    matches_tags,
)
from pipelines.triggers.watches import Look
from rbac.models import User

# In a state: pairs of tag and digest ("" if it is not known yet), oldest read first, and the tags whose
# digests are being read.
FOUND, READING = "tags", "reading"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def look_at_repository(watch: TriggerWatch, actor: User) -> Look:
    """Return the next part of a look, with the rights of a user. Raises `ConnectorUnavailable`."""
    connector = find_connector(watch.scope, str(watch.settings[CONNECTOR]), *CONNECTOR_KINDS)
    if connector is None:
        raise ConnectorUnavailable(
            f"There is no connector {watch.settings[CONNECTOR]} to AWS or a Docker registry for "
            f"{watch.scope}."
        )
    reading = watch.state.get(READING, [])
    report = watch.lookup.report if watch.lookup else _read(watch, connector, actor, reading)
    if isinstance(report, LookupRequest) or report is None:
        return Look(watch.state, lookup=report or watch.lookup)
    if "error" in report:
        raise ConnectorUnavailable(str(report["error"]))
    if reading:
        return _compare_digests(watch, report)
    return _compare_tags(watch, ImageTags.from_json(report), has_digests=connector.kind == Connector.Kind.AWS)


def _read(
    watch: TriggerWatch, connector: Connector, actor: User, tags: Sequence[str]
) -> Mapping[str, Any] | LookupRequest:
    return read_images(
        actor=actor,
        connector=connector,
        kind=LookupRequest.Kind.DIGESTS if tags else LookupRequest.Kind.TAGS,
        image=watch.subject,
        region=str(watch.settings[REGION] or ""),
        tags=tags,
    )


def _compare_tags(watch: TriggerWatch, tags: ImageTags, *, has_digests: bool) -> Look:
    """Return the events of an ECR repository, or the part that reads the digests of a registry."""
    if tags.is_cut:
        raise ConnectorUnavailable(
            f"The repository has more than {REGISTRY_TAGS}: too many to compare. Let it send events."
        )
    matching = [tag for tag in tags.tags if matches_tags(tag.name, watch.settings[TAGS] or [])]
    if has_digests:
        return _compare_ecr(watch, matching)
    names = [tag.name for tag in matching]
    known = watch.state.get(FOUND)
    # The first look starts nothing, so the tags count as known before their digests are.
    found = dict.fromkeys(names, "") if known is None else _keep(known, set(names))
    new = [name for name in names if name not in found]
    reading = [*new, *found][:REGISTRY_DIGESTS]
    state = {FOUND: _to_pairs(found)} | ({READING: reading} if reading else {})
    return Look(state, continues=bool(reading))


def _compare_ecr(watch: TriggerWatch, tags: Sequence[ImageTag]) -> Look:
    now = {tag.name: tag.digest for tag in tags if _DIGEST.fullmatch(tag.digest)}
    if watch.state.get(FOUND) is None:
        return Look({FOUND: _to_pairs(now)})
    known = dict(watch.state[FOUND])
    # The newest push is the first of the list, and starts the last run.
    changed = [(name, digest) for name, digest in reversed(now.items()) if known.get(name) != digest]
    events = changed[:TRIGGER_EVENTS_PER_LOOK]
    return Look(
        {FOUND: _to_pairs(_keep(watch.state[FOUND], set(now)) | dict(events))},
        tuple(build_found_event(watch.subject, name, digest) for name, digest in events),
        continues=len(changed) > len(events),
    )


def _compare_digests(watch: TriggerWatch, report: Mapping[str, Any]) -> Look:
    known = dict(watch.state[FOUND])
    read = {name: digest for name, digest in report["digests"].items() if _DIGEST.fullmatch(digest)}
    changed = [
        (name, read[name])
        for name in reversed(watch.state[READING])
        if name in read and known.get(name) not in (read[name], "")
    ]
    # Those that were read move to the end; a tag that could not be read keeps its digest, if it had one.
    tried = [name for name in watch.state[READING] if name in known or name in read]
    found = {name: digest for name, digest in known.items() if name not in tried}
    found |= {name: read.get(name) or known[name] for name in tried}
    return Look(
        {FOUND: _to_pairs(found)},
        tuple(build_found_event(watch.subject, name, digest) for name, digest in changed),
        problem=str(report.get("problem") or ""),
    )


def _keep(pairs: Iterable[tuple[str, str]], names: set[str]) -> dict[str, str]:
    return {name: digest for name, digest in pairs if name in names}


def _to_pairs(found: Mapping[str, str]) -> list[list[str]]:
    """Return what is stored: a list, because PostgreSQL keeps no order of the keys of an object."""
    return [list(pair) for pair in found.items()]
