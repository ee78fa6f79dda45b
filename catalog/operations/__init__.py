"""Operations on services, environments, infrastructures and overrides."""

from catalog.operations.environments import (
    EnvironmentSpec,
    create_environment,
    delete_environment,
    update_environment,
)
from catalog.operations.infrastructures import (
    InfrastructureSpec,
    create_infrastructure,
    delete_infrastructure,
    update_infrastructure,
)
from catalog.operations.manifests import MOST_MANIFESTS, ManifestSpec
from catalog.operations.overrides import OverrideSpec, list_override_problems, override_service
from catalog.operations.resources import describe_variable_problem
from catalog.operations.services import (
    IMAGE_PATTERN,
    TAG_PATTERN,
    ServiceSpec,
    create_service,
    delete_service,
    read_service_spec,
    update_service,
)

__all__ = [
    "EnvironmentSpec",
    "IMAGE_PATTERN",
    "InfrastructureSpec",
    "MOST_MANIFESTS",
    "ManifestSpec",
    "OverrideSpec",
    "ServiceSpec",
    "TAG_PATTERN",
    "create_environment",
    "create_infrastructure",
    "create_service",
    "delete_environment",
    "delete_infrastructure",
    "delete_service",
    "describe_variable_problem",
    "list_override_problems",
    "override_service",
    "read_service_spec",
    "update_environment",
    "update_infrastructure",
    "update_service",
]
