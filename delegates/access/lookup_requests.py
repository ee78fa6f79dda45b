"""Lookup requests of people, answered at once or through a delegate."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Q, QuerySet

from aws.errors import AwsError
from connectors.models import Connector
from connectors.required_access import get_connector_requirements, require_access
from connectors.secret_managers.base import SecretUnreadable
from connectors.secret_values import read_secret_value
from connectors.specs.aws import AwsSpec, parse_aws_spec
from connectors.specs.sites import parse_connector_spec
from delegates.access.aws_access import ConnectorUnavailable, EcsCluster, get_local_caller
from delegates.access.images import IMAGE_PATH, ImageTags, Repositories, read_registry
from delegates.access.lookup_options import LookupOptions, fetch_options, validate_subject
from delegates.access.lookup_tasks import LookupCaller, open_delegate_access, resume_lookup
from delegates.access.remedies import describe_with_remedy
from delegates.access.site_calls import FETCH_FILES, SITE_SERVICE, DelegateSiteAccess, SiteCaller
from delegates.models import DelegateTask, LookupRequest
from rbac.models import User
from web.clock import get_database_time
from web.http.problems import BadInput

# All users of a connector share the response to a query for this long after its end.
SHARED_AGE: Final = timedelta(minutes=1)
# A repeated query gets the pending response, or one that ended within this time.
DEDUPLICATION_WINDOW = timedelta(seconds=30)


def create_lookup_request(
    *,
    actor: User,
    connector: Connector,
    kind: str,
    region: str = "",
    subject: str = "",
    params: Mapping[str, Any] | None = None,
) -> LookupRequest:
    """Create a lookup through a delegate; the finished request contains the response.

    Raises `ConnectorUnavailable`.
    """
    require_access(actor, get_connector_requirements(connector))
    if connector.kind == Connector.Kind.AWS:
        region = region or parse_aws_spec(connector.spec).test_region
    _read_login(connector)
    with transaction.atomic():
        open_delegate_access(connector, kind, region)
        lookup = LookupRequest.objects.create(
            connector=connector,
            kind=kind,
            region=region,
            subject=subject,
            params=dict(params or {}),
            requested_by=actor,
            requested_at=get_database_time(),
        )
        resume_lookup(lookup)
    return lookup


def _read_login(connector: Connector) -> None:
    """Read the login of a connector: in the transaction nobody could wait for a delegate that reads it."""
    for secret in filter(None, (connector.secret, connector.session_token)):
        with suppress(SecretUnreadable):
            read_secret_value(secret, reader=f"connector {connector}")


def get_or_create_lookup_request(
    *, actor: User, connector: Connector, kind: str, region: str, subject: str = ""
) -> LookupRequest:
    """Return the user's recent request with the same query, or a new one."""
    require_access(actor, get_connector_requirements(connector))
    lookup = find_recent_request(LookupQuery(actor, connector, kind, region, subject))
    return lookup or create_lookup_request(
        actor=actor, connector=connector, kind=kind, region=region, subject=subject
    )


@dataclass(frozen=True)
class LookupQuery:
    """Query that a user sends to a connector."""

    actor: User
    connector: Connector
    kind: str
    region: str
    subject: str


def find_recent_request(query: LookupQuery) -> LookupRequest | None:
    """Return the user's recent request with the same query, finished or not."""
    return _filter_recent(query, DEDUPLICATION_WINDOW).filter(requested_by=query.actor).first()


def _filter_recent(query: LookupQuery, age: timedelta) -> QuerySet[LookupRequest]:
    """Return the requests of all users with a query that are running or not older than `age`, newest first.

    An older open request without an open task belongs to a process that died.
    """
    since = get_database_time() - age
    # The window must not start at the request: a delegate may take longer than the window for the response.
    is_recent = Q(finished_at__gt=since) | Q(finished_at=None, requested_at__gt=since)
    is_running = Q(finished_at=None, task__status__in=DelegateTask.OPEN)
    same = LookupRequest.objects.filter(
        is_recent | is_running,
        connector=query.connector,
        kind=query.kind,
        region=query.region,
        subject=query.subject,
        requested_at__gt=query.connector.updated_at,
    )
    return same.select_related("task").order_by("-requested_at")


def store_local_answer(query: LookupQuery, report: Mapping[str, Any]) -> None:
    """Cache a response of this process for repeated queries."""
    now = get_database_time()
    LookupRequest.objects.create(
        connector=query.connector,
        kind=query.kind,
        region=query.region,
        subject=query.subject,
        requested_by=query.actor,
        requested_at=now,
        finished_at=now,
        report=dict(report),
    )


def list_clusters_by_delegate(
    *, actor: User, connector: Connector, region: str
) -> list[EcsCluster] | LookupRequest:
    """Return the clusters visible to a delegate, or the lookup request while a delegate reads them.

    Raises `ConnectorUnavailable`.
    """
    lookup = get_or_create_lookup_request(
        actor=actor, connector=connector, kind=LookupRequest.Kind.CLUSTERS, region=region
    )
    if lookup.report is None:
        return lookup
    if "error" in lookup.report:
        raise ConnectorUnavailable(lookup.report["error"])
    return [EcsCluster(**cluster) for cluster in lookup.report["clusters"]]


def fetch_files_by_delegate(
    *, actor: User, connector: Connector, params: Mapping[str, Any]
) -> dict[str, Any] | LookupRequest:
    """Return the files of `FetchFiles`, or the lookup request while a delegate fetches them.

    Raises the error of the site that refused, or `ConnectorUnavailable`.
    """
    require_access(actor, get_connector_requirements(connector))
    subject = hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()
    region = str(params.get("region") or "")
    recent = find_recent_request(LookupQuery(actor, connector, LookupRequest.Kind.FILES, region, subject))
    lookup = recent or create_lookup_request(
        actor=actor,
        connector=connector,
        kind=LookupRequest.Kind.FILES,
        region=region,
        subject=subject,
        params=params,
    )
    if lookup.report is None:
        return lookup
    if "error" in lookup.report:
        raise ConnectorUnavailable(lookup.report["error"])
    return LookupCaller(lookup, DelegateSiteAccess(connector)).call(SITE_SERVICE, FETCH_FILES, params)


def list_options(
    *, actor: User, connector: Connector, kind: str, region: str, subject: str = ""
) -> LookupOptions | LookupRequest:
    """Return the current options of a connector, or the lookup request while a delegate reads them.

    Raises `ConnectorUnavailable` with AWS's reason after a refusal. Raises `BadInput` if the subject is not
    an ARN of its kind.
    """
    require_access(actor, get_connector_requirements(connector))
    subject = validate_subject(kind, subject)
    if not parse_aws_spec(connector.spec).is_remote:
        try:
            return fetch_options(kind, get_local_caller(connector, region), subject)
        except AwsError as error:
            raise ConnectorUnavailable(error.display_message) from error
    lookup = get_or_create_lookup_request(
        actor=actor, connector=connector, kind=kind, region=region, subject=subject
    )
    if lookup.report is None:
        return lookup
    if "error" in lookup.report:
        raise ConnectorUnavailable(lookup.report["error"])
    return list(lookup.report["seen"])


def find_recent_options(
    *, actor: User, connector: Connector, kind: str, region: str, subject: str, since: datetime
) -> LookupOptions | None:
    """Return the options of the user's newest answered lookup with the same query; None without one."""
    require_access(actor, get_connector_requirements(connector))
    rows = LookupRequest.objects.filter(
        connector=connector, kind=kind, region=region, subject=subject, requested_by=actor
    )
    recent = rows.filter(requested_at__gt=max(since, connector.updated_at), finished_at__isnull=False)
    reports = recent.order_by("-requested_at").values_list("report", flat=True)
    return next((list(report["seen"]) for report in reports if report and "seen" in report), None)


def read_shared_options(
    *, actor: User, connector: Connector, kind: str, region: str, subject: str
) -> LookupRequest:
    """Return the lookup of the last minute that all users of a connector share, or a new one.

    It may be unfinished; its report has the options as `seen`, or the `error`. Raises
    `ConnectorUnavailable`, and `BadInput` if the subject is not of its kind.
    """
    require_access(actor, get_connector_requirements(connector))
    subject = validate_subject(kind, subject)
    query = LookupQuery(actor, connector, kind, region, subject)
    if parse_aws_spec(connector.spec).is_remote:
        shared = _find_shared_request(query)
        return shared or create_lookup_request(
            actor=actor, connector=connector, kind=kind, region=region, subject=subject
        )
    caller = get_local_caller(connector, region)
    with transaction.atomic():
        # Pages of many users become late at the same moment.
        Connector.objects.select_for_update(of=("self",)).get(pk=connector.pk)
        if shared := _find_shared_request(query):
            return shared
        lookup = LookupRequest.objects.create(
            connector=connector,
            kind=kind,
            region=region,
            subject=subject,
            requested_by=actor,
            requested_at=get_database_time(),
        )
    try:
        lookup.report = {"seen": fetch_options(kind, caller, subject)}
    except AwsError as error:
        lookup.report = {"error": error.display_message}
    lookup.finished_at = get_database_time()
    lookup.save(update_fields=["finished_at", "report"])
    return lookup


def _find_shared_request(query: LookupQuery) -> LookupRequest | None:
    """Return the newest request of any user; an unfinished one of a process that died expires as well."""
    return _filter_recent(query, SHARED_AGE).first()


MAX_IMAGE_PATH: Final = 255


def list_image_tags(
    *, actor: User, connector: Connector, image: str, region: str
) -> ImageTags | LookupRequest:
    """Return the current tags of a repository, or the lookup request while a delegate reads them.

    Raises `BadInput` for an invalid repository, `ConnectorUnavailable` with the registry's reason after a
    refusal.
    """
    require_access(actor, get_connector_requirements(connector))
    if not IMAGE_PATH.match(image) or len(image) > MAX_IMAGE_PATH:
        message = "is the name of a repository in the registry, such as library/nginx"
        raise BadInput("Name the image.", errors=[{"path": "image", "message": message}])
    result = _read_or_request(LookupQuery(actor, connector, LookupRequest.Kind.TAGS, region, image))
    return result if isinstance(result, LookupRequest) else ImageTags.from_json(result)


def list_repositories(*, actor: User, connector: Connector, region: str) -> Repositories | LookupRequest:
    """Return the current repositories of a registry or of ECR in a region.

    Returns the lookup request while a delegate reads them. Raises `ConnectorUnavailable` after a refusal,
    without a catalog and for an address without a registry.
    """
    require_access(actor, get_connector_requirements(connector))
    if connector.kind not in (Connector.Kind.AWS, Connector.Kind.DOCKER_REGISTRY):
        raise ConnectorUnavailable(
            "Only registries and ECR list repositories: choose a connector to one of them."
        )
    result = _read_or_request(LookupQuery(actor, connector, LookupRequest.Kind.REPOSITORIES, region, ""))
    return result if isinstance(result, LookupRequest) else Repositories.from_json(result)


def read_images(
    *, actor: User, connector: Connector, kind: str, image: str, region: str, tags: Sequence[str] = ()
) -> Mapping[str, Any] | LookupRequest:
    """Return a report about a repository as it is now, or the lookup request while a delegate reads it.

    `kind` is that of tags, or of the digests of `tags`. Raises `ConnectorUnavailable` after a refusal.
    """
    require_access(actor, get_connector_requirements(connector))
    spec = parse_connector_spec(connector.kind, connector.spec)
    if isinstance(spec, AwsSpec):
        region = region or spec.test_region
    if spec.is_remote:
        return create_lookup_request(
            actor=actor,
            connector=connector,
            kind=kind,
            region=region,
            subject=image,
            params={"tags": [*tags]},
        )
    return _read_images_locally(connector, kind, image, region, tags)


def _read_or_request(query: LookupQuery) -> Mapping[str, Any] | LookupRequest:
    connector = query.connector
    if not parse_connector_spec(connector.kind, connector.spec).is_remote:
        return _read_locally(query)
    lookup = get_or_create_lookup_request(
        actor=query.actor,
        connector=connector,
        kind=query.kind,
        region=query.region,
        subject=query.subject,
    )
    if lookup.report is None:
        return lookup
    if "error" in lookup.report:
        raise ConnectorUnavailable(lookup.report["error"])
    return dict(lookup.report)


def _read_locally(query: LookupQuery) -> Mapping[str, Any]:
    """Return the response to a query from this process; repeated queries get the cached response."""
    if (same := find_recent_request(query)) is not None and same.report is not None:
        return dict(same.report)
    report = _read_images_locally(query.connector, query.kind, query.subject, query.region)
    store_local_answer(query, report)
    return report


def _read_images_locally(
    connector: Connector, kind: str, image: str, region: str, tags: Sequence[str] = ()
) -> Mapping[str, Any]:
    try:
        return read_registry(kind, SiteCaller(connector), image, region, tags)
    except AwsError as error:
        raise ConnectorUnavailable(describe_with_remedy(connector, error, region)) from error
