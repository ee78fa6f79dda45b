"""What people can do with services, environments and infrastructures: what pipelines refer to."""

from deployments.catalog.environments import (
    EnvironmentSpec,
    create_environment,
    delete_environment,
    update_environment,
)
from deployments.catalog.infrastructures import (
    InfrastructureSpec,
    create_infrastructure,
    delete_infrastructure,
    update_infrastructure,
)
from deployments.catalog.manifests import MOST_MANIFESTS, ManifestSpec
from deployments.catalog.overrides import OverrideSpec, faults_because_of, override_service
from deployments.catalog.rules import variable_problem
from deployments.catalog.services import (
    IMAGE,
    TAG,
    ServiceSpec,
    create_service,
    delete_service,
    update_service,
)

__all__ = [
    "IMAGE",
    "MOST_MANIFESTS",
    "TAG",
    "EnvironmentSpec",
    "InfrastructureSpec",
    "ManifestSpec",
    "OverrideSpec",
    "ServiceSpec",
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
