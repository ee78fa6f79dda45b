"""What people can do with services, environments and infrastructures: what pipelines refer to."""

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
from catalog.operations.overrides import OverrideSpec, faults_because_of, override_service
from catalog.operations.rules import variable_problem
from catalog.operations.services import (
    IMAGE,
    TAG,
    ServiceSpec,
    create_service,
    delete_service,
    update_service,
)

__all__ = [
    "EnvironmentSpec",
    "IMAGE",
    "InfrastructureSpec",
    "MOST_MANIFESTS",
    "ManifestSpec",
    "OverrideSpec",
    "ServiceSpec",
    "TAG",
    "create_environment",
    "create_infrastructure",
    "create_service",
    "delete_environment",
    "delete_infrastructure",
    "delete_service",
    "faults_because_of",
    "override_service",
    "update_environment",
    "update_infrastructure",
    "update_service",
    "variable_problem",
]
