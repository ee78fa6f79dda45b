"""Overrides of one service in an environment and an infrastructure, and the manifest rows they result in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from catalog.manifests.kinds import SCALING_POLICY
from catalog.manifests.layers import MERGE, REPLACE
from catalog.manifests.stores import TASK_DEFINITION_ARN
from catalog.models import Environment, Infrastructure, Manifest, Service, ServiceOverride
from catalog.overrides.variables import INFRASTRUCTURE, VariableLevel, VariableValue, build_levels
from rbac.models import Scope

SERVICE_LEVEL, ENVIRONMENT_LEVEL, INFRASTRUCTURE_LEVEL = "service", "environment", "infrastructure"

ManifestRow = dict[str, Any]


@dataclass(frozen=True)
class ServiceOverrideSet:
    """The overrides of one service: the environment's, and those of one infrastructure.

    `infrastructure` is None if only the environment is shown.
    """

    service: Service
    environment: Environment
    infrastructure: Infrastructure | None = None
    environment_override: ServiceOverride | None = None
    infrastructure_override: ServiceOverride | None = None

    @property
    def current_override(self) -> ServiceOverride | None:
        """Return the override of the selected target: the infrastructure's, if one is given."""
        return self.environment_override if self.infrastructure is None else self.infrastructure_override

    @property
    def level(self) -> str:
        """Return the level of the selected target's override."""
        return ENVIRONMENT_LEVEL if self.infrastructure is None else INFRASTRUCTURE_LEVEL

    @property
    def target_name(self) -> str:
        """Return the display name of the selected target."""
        if self.infrastructure is None:
            return self.environment.name
        return f"{self.infrastructure.name} of {self.environment.name}"

    @property
    def levels(self) -> tuple[VariableLevel, ...]:
        """Return the levels that may set a variable here, weakest first."""
        levels = build_levels(self.service, self.environment, _get_variables(self.environment_override))
        if self.infrastructure is None:
            return levels
        owner = f"{self.service.name} in {self.infrastructure.name}"
        return (*levels, VariableLevel(INFRASTRUCTURE, owner, _get_variables(self.infrastructure_override)))

    @property
    def values(self) -> tuple[Mapping[str, VariableValue], ...]:
        """Return the variables of each level, the weakest first."""
        return tuple(level.values for level in self.levels)

    def list_rows(self, kinds: Iterable[str] = Manifest.Kind.values) -> list[ManifestRow]:
        """Return the effective manifests with level and mode, weakest of each kind first."""
        manifests = sorted(self.service.manifests.all(), key=attrgetter("pk"))
        own = [build_manifest_row(manifest) for manifest in manifests]
        rows = [
            *own,
            *_list_override_rows(self.environment_override, ENVIRONMENT_LEVEL),
            *_list_override_rows(self.infrastructure_override, INFRASTRUCTURE_LEVEL),
        ]
        return [
            row
            for kind in kinds
            for row in _drop_replaced_rows(kind, [item for item in rows if item["kind"] == kind])
        ]

    @property
    def conflicts(self) -> list[str]:
        """Return the conflicts between overrides, as sentences."""
        rows = self.list_rows([Manifest.Kind.TASK_DEFINITION])
        if not rows or rows[0]["store"] != TASK_DEFINITION_ARN:
            return []
        arn = f"{rows[0]['identifier']} of the {rows[0]['level']}"
        return [
            f"the override {row['identifier']} of the {row['level']} cannot be merged with a task "
            f"definition ARN ({arn}): set it to replace the manifest"
            for row in rows[1:]
            if row["level"] != SERVICE_LEVEL
        ]


def load_override_set(
    service: Service, environment: Environment, infrastructure: Infrastructure | None = None
) -> ServiceOverrideSet:
    """Load the overrides of a service in an environment, and in an infrastructure if given."""
    return load_override_sets([(service, environment, infrastructure)])[0]


def load_override_sets(
    places: Sequence[tuple[Service, Environment, Infrastructure | None]],
) -> list[ServiceOverrideSet]:
    """Load the overrides of each service in its environment and infrastructure, in one query for all."""
    rows = ServiceOverride.objects.filter(
        service__in={service for service, _, _ in places},
        environment__in={environment for _, environment, _ in places},
    )
    overrides = {(row.service_id, row.environment_id, row.infrastructure_id): row for row in rows}
    return [
        ServiceOverrideSet(
            service,
            environment,
            infrastructure,
            overrides.get((service.pk, environment.pk, None)),
            overrides.get((service.pk, environment.pk, infrastructure.pk)) if infrastructure else None,
        )
        for service, environment, infrastructure in places
    ]


def get_deeper_scope(first: Scope, second: Scope) -> Scope:
    """Return the deeper of two nested scopes; from there both resources are visible."""
    return max(first, second, key=lambda scope: len(scope.path))


def build_manifest_row(manifest: Manifest) -> ManifestRow:
    """Build the row of a service's manifest that an execution stores."""
    return {
        "identifier": manifest.identifier,
        "kind": manifest.kind,
        "store": manifest.store,
        "paths": manifest.paths,
        "content": manifest.content,
        "place": manifest.place,
        "level": SERVICE_LEVEL,
        "mode": MERGE,
    }


def _list_override_rows(override: ServiceOverride | None, level: str) -> list[ManifestRow]:
    return [{"mode": MERGE, **row, "level": level} for row in (override.manifests if override else [])]


def _drop_replaced_rows(kind: str, rows: Sequence[ManifestRow]) -> Sequence[ManifestRow]:
    """Return the rows without those that a stronger one replaces; policies are matched by name when read."""
    if kind == SCALING_POLICY:
        return rows
    whole = [
        number
        for number, row in enumerate(rows)
        if row["level"] != SERVICE_LEVEL and (row["mode"] == REPLACE or row["store"] == TASK_DEFINITION_ARN)
    ]
    return rows[whole[-1] :] if whole else rows


def _get_variables(override: ServiceOverride | None) -> Mapping[str, VariableValue]:
    return override.variables if override else {}
