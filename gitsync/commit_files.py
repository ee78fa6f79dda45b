"""Files of the newest commit of a followed branch, fetched here or by a delegate."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.errors import AwsError
from connectors.required_access import find_missing_permissions, get_connector_requirements
from delegates.access.aws_access import ConnectorUnavailable
from delegates.access.lookup_requests import create_lookup_request
from delegates.access.lookup_tasks import LookupCaller
from delegates.access.remedies import find_site_remedy
from delegates.access.site_calls import (
    FETCH_FILES,
    SITE_SERVICE,
    DelegateSiteAccess,
    SiteCaller,
    open_site_access,
)
from delegates.models import LookupRequest
from gitsync.documents import SUFFIXES
from gitsync.models import GitSync
from guards.text import sanitize_text
from rbac.models import User


class CommitUnavailable(Exception):
    """Error raised if the files cannot be fetched; the text is the reason with the next step."""


class FetchPending(Exception):
    """Error raised while a delegate fetches; `lookup` is its request."""

    def __init__(self, lookup: LookupRequest) -> None:
        super().__init__(lookup.reason)
        self.lookup = lookup


@dataclass(frozen=True)
class CommitFiles:
    """Texts of the files below the folder, by their paths in the repository."""

    commit: str
    texts: Mapping[str, str]


def fetch_commit_files(sync: GitSync, reader: User) -> CommitFiles:
    """Return the files of the newest commit. Raises `CommitUnavailable` and `FetchPending`."""
    connector = sync.connector
    if connector is None:
        raise CommitUnavailable("The connector was deleted. Select another one.")
    if missing := find_missing_permissions(reader, get_connector_requirements(connector)):
        need = missing[0].requirement
        raise CommitUnavailable(
            f"The service account needs {need.permission} on {need.title}. Give it a role that has it."
        )
    params = {
        "ref": f"refs/heads/{sync.branch}",
        "repository": sync.repository,
        "paths": [sync.folder],
        "suffixes": list(SUFFIXES),
    }
    access = open_site_access(connector)
    try:
        if isinstance(access, SiteCaller):
            answer: Mapping[str, Any] = access.call(SITE_SERVICE, FETCH_FILES, params)
        else:
            answer = _fetch_by_delegate(sync, access, reader, params)
    except (AwsError, ConnectorUnavailable) as problem:
        reason = problem.display_message if isinstance(problem, AwsError) else str(problem)
        raise CommitUnavailable(_add_next_step(sanitize_text(reason))) from problem
    return CommitFiles(str(answer["commit"]), {str(k): str(v) for k, v in answer["files"].items()})


def _fetch_by_delegate(
    sync: GitSync, access: DelegateSiteAccess, reader: User, params: Mapping[str, Any]
) -> Mapping[str, Any]:
    lookup = sync.lookup
    if lookup is None or lookup.connector_id != access.connector.pk or dict(lookup.params) != dict(params):
        lookup = create_lookup_request(
            actor=reader, connector=access.connector, kind=LookupRequest.Kind.FILES, params=params
        )
    if lookup.report is None:
        raise FetchPending(lookup)
    if "error" in lookup.report:
        raise ConnectorUnavailable(lookup.report["error"])
    return LookupCaller(lookup, access).call(SITE_SERVICE, FETCH_FILES, params)


def _add_next_step(sentence: str) -> str:
    return f"{sentence.rstrip('.')}. {find_site_remedy(sentence)}".strip()
