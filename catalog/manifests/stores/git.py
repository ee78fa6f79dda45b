"""Git store: files of a repository at a branch, tag or commit."""

import re
from collections.abc import Mapping
from typing import Any, Final

from catalog.manifests.stores.registry import ManifestSource, StoreField, register_store
from catalog.manifests.stores.remote import CONNECTOR_FIELD, RemoteStore
from connectors.specs.sites import describe_repository_problem

BRANCH, TAG, COMMIT = "branch", "tag", "commit"
_REVISION_FIELDS: Final = (BRANCH, TAG, COMMIT)
_REVISION_PATTERN: Final = re.compile(r"[\w][\w./+-]{0,254}\Z", re.ASCII)
_COMMIT_PATTERN: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_REPOSITORY_FIELD: Final = StoreField(
    "repository",
    "Repository",
    help="Only if the connector URL is an account URL, such as app.git.",
    cell_help="Of an account's connector the repository.",
)
_FORM_FIELDS: Final = (
    CONNECTOR_FIELD,
    _REPOSITORY_FIELD,
    StoreField(
        "ref_kind",
        "Branch, tag or commit",
        choices=((BRANCH, "Branch"), (TAG, "Tag"), (COMMIT, "Commit")),
    ),
    StoreField(
        "ref", "Ref name", help="Such as main. Each run pins the commit it started with.", is_needed=True
    ),
)


@register_store
class GitStore(RemoteStore):
    """Files of a Git repository at a branch, tag or commit."""

    name = "Git"
    title = "Git"
    choice = "Git repository"
    position = 3
    connector_kind = "Git"
    place_fields = (
        CONNECTOR_FIELD,
        StoreField(BRANCH, "Branch", cell_help="Or a tag, or a commit."),
        StoreField(TAG, "Tag"),
        StoreField(COMMIT, "Commit", cell_help="40 hexadecimal digits."),
        _REPOSITORY_FIELD,
    )

    def list_form_fields(self) -> tuple[StoreField, ...]:
        """Return a choice of branch, tag or commit and one name, in place of three names."""
        return _FORM_FIELDS

    def build_place(self, values: Mapping[str, str]) -> dict[str, str]:
        names = {name: values.get(name, "") for name in ("connector", "repository")}
        return names | {values.get("ref_kind") or BRANCH: values.get("ref", "")}

    def build_form_values(self, place: Mapping[str, str]) -> dict[str, str]:
        kind = _get_revision_kind(place)
        names = {name: place.get(name, "") for name in ("connector", "repository")}
        return {**names, "ref_kind": kind, "ref": place.get(kind, "")}

    def describe_place_problem(self, place: Mapping[str, str]) -> str:
        revisions = [name for name in _REVISION_FIELDS if place.get(name)]
        if len(revisions) != 1:
            return f"place names one of {', '.join(_REVISION_FIELDS)}"
        repository = place.get("repository", "").strip("/")
        if "<+" not in repository and repository and (problem := describe_repository_problem(repository)):
            return f"repository {repository} {problem}"
        return _describe_revision_problem(revisions[0], place[revisions[0]])

    def describe_location(self, place: Mapping[str, str]) -> str:
        kind = _get_revision_kind(place)
        name = place.get(kind, "")
        where = place.get("repository") or place.get("connector", "")
        return f"the {kind} {name[:12] if kind == COMMIT else name} of {where}"

    def build_request(self, place: Mapping[str, str]) -> dict[str, Any]:
        return {"ref": get_git_ref(place), "repository": place.get("repository", "")}

    def describe_fetch(self, row: ManifestSource) -> str:
        if row["place"].get(COMMIT):
            return super().describe_fetch(row)
        return f"Using commit {row.get('commit', '')[:12]} of {self.describe_location(row['place'])}"


def _describe_revision_problem(kind: str, name: str) -> str:
    if "<+" in name:
        return ""
    if kind == COMMIT and not _COMMIT_PATTERN.match(name):
        return "commit is the whole hash of a commit, 40 hexadecimal digits"
    if not _REVISION_PATTERN.match(name) or ".." in name or name.endswith(("/", ".lock")):
        return f"{kind} {name} is not the name of a {kind}"
    return ""


def get_git_ref(place: Mapping[str, str]) -> str:
    """Return the full ref of a place; a branch and a tag may have the same name."""
    if place.get(TAG):
        return f"refs/tags/{place[TAG]}"
    return place.get(COMMIT) or f"refs/heads/{place[BRANCH]}"


def _get_revision_kind(place: Mapping[str, str]) -> str:
    return next((field for field in _REVISION_FIELDS if place.get(field)), BRANCH)
