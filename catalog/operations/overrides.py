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
from catalog.overrides.policy_checks import require_allowed_overrides
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
            asdict(manifest)
            | {"paths": list(manifest.paths), "place": clean_location(manifest.store, manifest.place)}
            for manifest in self.manifests
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
    deployable manifest undeployable, `PolicyViolated`, and `VersionConflict` if `version` is given and
    outdated.
    """
    require(actor, "core_environment_edit", environment)
    override_set = load_override_set(service, environment, infrastructure)
    _validate_spec(override_set, spec)
    require_store_access(actor, get_deeper_scope(environment.scope, service.scope), spec.manifests)
    _require_deployable_manifests(actor, override_set, spec)
    if spec.manifests:
        require_allowed_overrides(_replace_override(override_set, spec))
    try:
        with transaction.atomic():
            override = _write_override(
                actor, load_override_set(service, environment, infrastructure), spec, version
            )
            if any(manifest.kind == SERVICE_DEFINITION for manifest in spec.manifests):
                require_deployable(service, actor)
            return override
    except IntegrityError as exc:
        raise VersionConflict("Another user is changing this override. Try again.") from exc


def _require_deployable_manifests(actor: User, override_set: ServiceOverrideSet, spec: OverrideSpec) -> None:
    """Raise `BadInput` for problems that this override causes in the merged manifests."""
    errors = [
        {"path": f"manifests.{_get_manifest_index(spec, fault.kind)}", "message": fault.text}
        for fault in list_override_problems(actor, override_set, spec)
    ]
    if errors:
        raise BadInput("The manifests cannot be deployed.", errors=errors)


def list_override_problems(
    actor: User, override_set: ServiceOverrideSet, spec: OverrideSpec
) -> list[BlockingProblem]:
    """Return the problems of the merged manifests that do not exist without this override."""
    kinds = dict.fromkeys(manifest.kind for manifest in spec.manifests)
    faults = _list_problems(actor, _replace_override(override_set, spec), kinds)
    before = (
        set(_list_problems(actor, _replace_override(override_set, OverrideSpec()), kinds))
        if faults
        else set()
    )
    return [problem for problem in faults if problem not in before]


def _list_problems(
    actor: User, override_set: ServiceOverrideSet, kinds: Mapping[str, None]
) -> list[BlockingProblem]:
    return [
        fault
        for manifest in list_effective_manifests(override_set, actor, kinds)
        for fault in manifest.blocking_problems
    ]


def _replace_override(override_set: ServiceOverrideSet, spec: OverrideSpec) -> ServiceOverrideSet:
    """Return the override set with this override replaced."""
    override = ServiceOverride(
        environment=override_set.environment,
        service=override_set.service,
        infrastructure=override_set.infrastructure,
        variables=dict(spec.variables),
        manifests=spec.rows,
    )
    if override_set.infrastructure is None:
        return replace(override_set, environment_override=override)
    return replace(override_set, infrastructure_override=override)


def _get_manifest_index(spec: OverrideSpec, kind: str) -> int:
    return next(number for number, manifest in enumerate(spec.manifests) if manifest.kind == kind)


def _write_override(
    actor: User, override_set: ServiceOverrideSet, spec: OverrideSpec, version: int | None
) -> ServiceOverride | None:
    override = override_set.current_override
    if version is not None and version != (override.version if override else 0):
        raise VersionConflict("Someone else changed this after you opened it. Nothing was saved.")
    before = _build_audit_record(override) if override else None
    if not spec.variables and not spec.manifests:
        if override:
            record_audit_entry(actor=actor, action="override.delete", thing=override, before=before)
            override.delete()
        return None
    if override is None:
        override = ServiceOverride(
            environment=override_set.environment,
            service=override_set.service,
            infrastructure=override_set.infrastructure,
        )
    else:
        increment_version(override, version)
    override.variables, override.manifests = dict(spec.variables), spec.rows
    override.save()
    record_audit_entry(
        actor=actor,
        action="override.update",
        thing=override,
        before=before,
        after=_build_audit_record(override),
    )
    return override


def _build_audit_record(override: ServiceOverride) -> dict[str, Any]:
    """Build the audit record: no values and no texts, only hashes that show changes."""
    return {
        "infrastructure": override.infrastructure.identifier if override.infrastructure else None,
        "variables": sorted(override.variables),
        "manifests": [
            {**row, "content": sha256(row["content"].encode()).hexdigest()[:16]} for row in override.manifests
        ],
    }


def _validate_spec(override_set: ServiceOverrideSet, spec: OverrideSpec) -> None:
    errors = [*list_variable_problems(spec.variables), *list_manifest_problems(spec.manifests)]
    environment_path, service_path = override_set.environment.scope.path, override_set.service.scope.path
    if not (
        f"{environment_path}/".startswith(f"{service_path}/")
        or f"{service_path}/".startswith(f"{environment_path}/")
    ):
        errors.append({"path": "service", "message": "No pipeline can deploy this service to that target."})
    if errors:
        raise BadInput("Could not save the override.", errors=errors)
