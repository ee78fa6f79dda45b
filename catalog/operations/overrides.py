"""Operations on service overrides of an environment or an infrastructure (R178)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from django.db import IntegrityError, transaction

from catalog.manifests.kinds import SERVICE_DEFINITION
from catalog.manifests.locations import clean_location
from catalog.models import Environment, Infrastructure, Service, ServiceOverride
from catalog.operations.manifests import ManifestSpec, list_manifest_problems, require_store_access
from catalog.operations.resources import increment_version, list_variable_problems
from catalog.overrides.effective_manifests import BlockingProblem, list_effective_manifests
from catalog.overrides.override_sets import ServiceOverrideSet, get_deeper_scope, load_override_set
from catalog.usages import require_deployable
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import require
from web.http.problems import BadInput, VersionConflict


@dataclass(frozen=True)
class OverrideSpec:
    """The overrides of a service in one environment or infrastructure; empty removes them."""

    variables: Mapping[str, Any] = field(default_factory=dict)
    manifests: Sequence[ManifestSpec] = ()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the manifests as stored rows."""
        return [
            asdict(one) | {"paths": list(one.paths), "place": clean_location(one.store, one.place)}
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
    """Set the overrides of a service in an environment or infrastructure; an empty spec removes them.

    `version` is the version being edited, 0 for none. Raises `BadInput`, also if the override makes a
    deployable manifest undeployable, and `VersionConflict` if `version` is given and outdated.
    """
    require(actor, "core_environment_edit", environment)
    there = load_override_set(service, environment, infrastructure)
    _validate_spec(there, spec)
    require_store_access(actor, get_deeper_scope(environment.scope, service.scope), spec.manifests)
    _require_deployable_manifests(actor, there, spec)
    try:
        with transaction.atomic():
            written = _write_override(
                actor, load_override_set(service, environment, infrastructure), spec, version
            )
            if any(one.kind == SERVICE_DEFINITION for one in spec.manifests):
                require_deployable(service, actor)
            return written
    except IntegrityError as exc:
        raise VersionConflict("Another user is changing this override. Try again.") from exc


def _require_deployable_manifests(actor: User, there: ServiceOverrideSet, spec: OverrideSpec) -> None:
    """Raise `BadInput` for problems that this override causes in the merged manifests."""
    errors = [
        {"path": f"manifests.{_get_manifest_index(spec, fault.kind)}", "message": fault.text}
        for fault in list_override_problems(actor, there, spec)
    ]
    if errors:
        raise BadInput("The manifests cannot be deployed.", errors=errors)


def list_override_problems(
    actor: User, there: ServiceOverrideSet, spec: OverrideSpec
) -> list[BlockingProblem]:
    """Return the problems of the merged manifests that do not exist without this override."""
    kinds = dict.fromkeys(one.kind for one in spec.manifests)
    faults = _list_problems(actor, _replace_override(there, spec), kinds)
    before = set(_list_problems(actor, _replace_override(there, OverrideSpec()), kinds)) if faults else set()
    return [one for one in faults if one not in before]


def _list_problems(
    actor: User, there: ServiceOverrideSet, kinds: Mapping[str, None]
) -> list[BlockingProblem]:
    return [fault for one in list_effective_manifests(there, actor, kinds) for fault in one.blocking_problems]


def _replace_override(there: ServiceOverrideSet, spec: OverrideSpec) -> ServiceOverrideSet:
    """Return the override set with this override replaced."""
    meant = ServiceOverride(
        environment=there.environment,
        service=there.service,
        infrastructure=there.infrastructure,
        variables=dict(spec.variables),
        manifests=spec.rows,
    )
    if there.infrastructure is None:
        return replace(there, environment_override=meant)
    return replace(there, infrastructure_override=meant)


def _get_manifest_index(spec: OverrideSpec, kind: str) -> int:
    return next(number for number, one in enumerate(spec.manifests) if one.kind == kind)


def _write_override(
    actor: User, there: ServiceOverrideSet, spec: OverrideSpec, version: int | None
) -> ServiceOverride | None:
    found = there.current_override
    if version is not None and version != (found.version if found else 0):
        raise VersionConflict("Someone else changed this after you opened it. Nothing was saved.")
    before = _build_audit_record(found) if found else None
    if not spec.variables and not spec.manifests:
        if found:
            record_audit_entry(actor=actor, action="override.delete", thing=found, before=before)
            found.delete()
        return None
    if found is None:
        found = ServiceOverride(
            environment=there.environment, service=there.service, infrastructure=there.infrastructure
        )
    else:
        increment_version(found, version)
    found.variables, found.manifests = dict(spec.variables), spec.rows
    found.save()
    record_audit_entry(
        actor=actor, action="override.update", thing=found, before=before, after=_build_audit_record(found)
    )
    return found


def _build_audit_record(override: ServiceOverride) -> dict[str, Any]:
    """Build the audit record: no values and no texts, only hashes that show changes."""
    return {
        "infrastructure": override.infrastructure.identifier if override.infrastructure else None,
        "variables": sorted(override.variables),
        "manifests": [
            {**row, "content": sha256(row["content"].encode()).hexdigest()[:16]} for row in override.manifests
        ],
    }


def _validate_spec(there: ServiceOverrideSet, spec: OverrideSpec) -> None:
    errors = [*list_variable_problems(spec.variables), *list_manifest_problems(spec.manifests)]
    one, other = there.environment.scope.path, there.service.scope.path
    if not (f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")):
        errors.append({"path": "service", "message": "No pipeline can deploy this service to that target."})
    if errors:
        raise BadInput("Could not save the override.", errors=errors)
