"""What people can do with what one service has in one environment, or in one infrastructure of it (R178)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from django.db import IntegrityError, transaction

from catalog.effective.manifests import Fault, counting_manifests
from catalog.effective.resolution import Overridden, deeper, overridden
from catalog.manifests.kinds import SERVICE_DEFINITION
from catalog.manifests.places import clean_place
from catalog.models import Environment, Infrastructure, Service, ServiceOverride
from catalog.operations.manifests import ManifestSpec, manifest_problems, refuse_closed_stores
from catalog.operations.rules import next_version, variable_problems
from catalog.usage import refuse_undeployable
from rbac.audit import record
from rbac.models import User
from rbac.policy import require
from web.problems import BadInput, ChangedMeanwhile


@dataclass(frozen=True)
class OverrideSpec:
    """What a service shall have in one place and nowhere else; empty removes the override."""

    variables: Mapping[str, Any] = field(default_factory=dict)
    manifests: Sequence[ManifestSpec] = ()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The manifests as they are stored."""
        return [
            asdict(one) | {"paths": list(one.paths), "place": clean_place(one.store, one.place)}
            for one in self.manifests
        ]


def override_service(
    *,
    actor: User,
    environment: Environment,
    service: Service,
    spec: OverrideSpec,
    infrastructure: Infrastructure | None = None,
    version: int | None = None,
) -> ServiceOverride | None:
    """Say what a service has in an environment, or in one infrastructure of it; nothing at all removes it.

    `version` is the one that the writer began from, 0 for none. Raises `BadInput`, also where a manifest
    that could be deployed before no longer could, and `ChangedMeanwhile` where a version is given that is
    no longer the current one.
    """
    require(actor, "core_environment_edit", environment)
    there = overridden(service, environment, infrastructure)
    _refuse(there, spec)
    refuse_closed_stores(actor, deeper(environment.scope, service.scope), spec.manifests)
    _refuse_what_breaks(actor, there, spec)
    try:
        with transaction.atomic():
            written = _write(actor, overridden(service, environment, infrastructure), spec, version)
            if any(one.kind == SERVICE_DEFINITION for one in spec.manifests):
                refuse_undeployable(service, actor)
            return written
    except IntegrityError as exc:
        raise ChangedMeanwhile("Somebody else overrides this service at the same time.") from exc


def _refuse_what_breaks(actor: User, there: Overridden, spec: OverrideSpec) -> None:
    """Raises `BadInput` for what would be wrong with the merged manifests because of this override."""
    errors = [
        {"path": f"manifests.{_number_of(spec, fault.kind)}", "message": fault.text}
        for fault in faults_because_of(actor, there, spec)
    ]
    if errors:
        raise BadInput("The manifests cannot be deployed like this.", errors=errors)


def faults_because_of(actor: User, there: Overridden, spec: OverrideSpec) -> list[Fault]:
    """What would be wrong with the merged manifests, and is not wrong without this override."""
    kinds = dict.fromkeys(one.kind for one in spec.manifests)
    faults = _faults(actor, _with(there, spec), kinds)
    before = set(_faults(actor, _with(there, OverrideSpec()), kinds)) if faults else set()
    return [one for one in faults if one not in before]


def _faults(actor: User, there: Overridden, kinds: Mapping[str, None]) -> list[Fault]:
    return [fault for one in counting_manifests(there, actor, kinds) for fault in one.faults]


def _with(there: Overridden, spec: OverrideSpec) -> Overridden:
    """The overrides as they would be."""
    meant = ServiceOverride(
        environment=there.environment,
        service=there.service,
        infrastructure=there.infrastructure,
        variables=dict(spec.variables),
        manifests=spec.rows,
    )
    if there.infrastructure is None:
        return replace(there, of_environment=meant)
    return replace(there, of_infrastructure=meant)


def _number_of(spec: OverrideSpec, kind: str) -> int:
    return next(number for number, one in enumerate(spec.manifests) if one.kind == kind)


def _write(actor: User, there: Overridden, spec: OverrideSpec, version: int | None) -> ServiceOverride | None:
    found = there.strongest
    if version is not None and version != (found.version if found else 0):
        raise ChangedMeanwhile("Somebody changed this after you opened it. Nothing was saved.")
    before = _recorded(found) if found else None
    if not spec.variables and not spec.manifests:
        if found:
            record(actor=actor, action="override.delete", thing=found, before=before)
            found.delete()
        return None
    if found is None:
        found = ServiceOverride(
            environment=there.environment, service=there.service, infrastructure=there.infrastructure
        )
    else:
        next_version(found, version)
    found.variables, found.manifests = dict(spec.variables), spec.rows
    found.save()
    record(actor=actor, action="override.update", thing=found, before=before, after=_recorded(found))
    return found


def _recorded(override: ServiceOverride) -> dict[str, Any]:
    """What the audit trail keeps: no values and no texts, but whether a text is still the same."""
    return {
        "infrastructure": override.infrastructure.identifier if override.infrastructure else None,
        "variables": sorted(override.variables),
        "manifests": [
            {**row, "content": sha256(row["content"].encode()).hexdigest()[:16]} for row in override.manifests
        ],
    }


def _refuse(there: Overridden, spec: OverrideSpec) -> None:
    errors = [*variable_problems(spec.variables), *manifest_problems(spec.manifests)]
    one, other = there.environment.scope.path, there.service.scope.path
    if not (f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")):
        errors.append({"path": "service", "message": "No pipeline can deploy this service there."})
    if errors:
        raise BadInput("The override cannot be saved like this.", errors=errors)
