"""Reasons for which Slipway cannot deploy a delegate, or remove one."""

from collections.abc import Iterator

from connectors.models import Connector
from connectors.specs.aws import parse_aws_spec
from delegates.access.aws_access import list_required_features
from delegates.connectivity import is_connected
from delegates.models import Delegate, DelegateTask
from delegates.operations.installation import build_spec_request
from delegates.queries.routing_candidates import list_effective_tags, read_candidate_pool
from delegates.queries.task_connections import find_delegate
from delegates.routing.rules import RoutingRequest, RoutingRule, evaluate_rules
from deployments.delegate_installs.documents import build_deployed_plan
from deployments.delegate_installs.records import build_identifier
from rbac.models import Scope
from web.clock import get_database_time


def list_deployment_problems(
    delegate: Delegate, project: Scope, connector: Connector
) -> Iterator[tuple[str, str]]:
    """Return field and sentence of each reason against a deployment, the most important one first.

    The field is `project`, `connector`, or empty for a reason in the delegate itself.
    """
    yield from (("", message) for message in _list_delegate_problems(delegate))
    yield from list_place_problems(delegate, project, connector)


def list_place_problems(
    delegate: Delegate, project: Scope, connector: Connector
) -> Iterator[tuple[str, str]]:
    """Return field and sentence of each reason against project or connector of a delegate's run."""
    if project.kind != Scope.Kind.PROJECT or delegate.scope.path not in project.ancestor_paths():
        yield "project", f"Choose a project in {delegate.scope}."
    elif find_delegate(project, delegate.name) != delegate:
        yield "project", f"The project has another delegate called {delegate.name}. Choose another project."
    if connector.kind != Connector.Kind.AWS or connector.scope.path not in project.ancestor_paths():
        yield "connector", f"Choose an AWS connector of {project} or of a scope above it."
    elif _would_serve_itself(delegate, connector) and not _has_other_delegate(delegate, project, connector):
        yield (
            "connector",
            "Only the delegate itself can serve this connector now, and it must not replace or end its own "
            "tasks. Connect another delegate that has the connector's selectors, or choose a connector that "
            "connects through Slipway.",
        )


def _list_delegate_problems(delegate: Delegate) -> Iterator[str]:
    spec = build_deployed_plan(build_spec_request(delegate))
    request = spec.request
    if not delegate.spec or request.kind != "ECS":
        yield f"Slipway deploys delegates on ECS only. {delegate} is installed with its files and commands."
        return
    if delegate.token is None or not delegate.token.is_usable:
        yield "The token of the delegate is revoked, expired or deleted. Choose another one first."
    if request.is_awsvpc and not (request.network.subnets and request.network.security_groups):
        yield "The delegate has no subnets or no security groups. Change its setup, and choose both."
    if not request.aws_account_id and (spec.is_mirrored or (request.task_role and not spec.has_own_role)):
        yield "The AWS account of the delegate is unknown. Change its setup, and enter the account ID."


def _would_serve_itself(delegate: Delegate, connector: Connector) -> bool:
    """Return whether calls of the connector may go to the delegate itself."""
    spec, now = parse_aws_spec(connector.spec), get_database_time()
    instances = list(delegate.instances.all())
    if not spec.is_remote or not any(is_connected(instance, now) for instance in instances):
        return False
    selectors = {selector.casefold() for selector in spec.delegate_selectors}
    return selectors <= list_effective_tags(delegate, instances, now)


def _has_other_delegate(delegate: Delegate, project: Scope, connector: Connector) -> bool:
    """Return whether another connected delegate may make the connector's calls, once it has capacity."""
    request = RoutingRequest(
        scope=project.path,
        selectors=parse_aws_spec(connector.spec).delegate_selectors,
        environment=f"{project.path}/{build_identifier(delegate)}",
        task_kind=DelegateTask.Kind.AWS,
        features=tuple(list_required_features(connector)),
        excluded=delegate.pk,
    )
    candidates = read_candidate_pool([], get_database_time()).delegates.values()
    return any(
        all(
            verdict.ok or verdict.rule is RoutingRule.CAPACITY
            for verdict in evaluate_rules(request, candidate)
        )
        for candidate in candidates
    )
