"""Addresses of Git syncs, with all that can be asked of them."""

from typing import Any

from tests.api.requests import Ask, Row, add_scope, allow_get, get, use_key_of
from tests.api.required_access import Anywhere, Lists, Needs, Open
from tests.api.sample_project import World


def _body(world: World) -> dict[str, Any]:
    """Return a body that is refused after the permission check: the connector is none to Git."""
    rows = {"connector": world.connector.pk, "service_account": world.service_account.pk}
    return {"name": "X", "branch": "main", **rows}


def _new_body(world: World) -> dict[str, Any]:
    return add_scope(identifier="x", **_body(world))(world)


GIT_SYNCS: dict[str, Row] = {
    "git-syncs": allow_get(Lists("core_gitsync_view")),
    "git-sync": allow_get(Needs("core_gitsync_view"), use_key_of("git_sync")),
    "new-git-sync": Row((get(Anywhere("core_gitsync_edit")),)),
    "edit-git-sync": Row(
        (
            get(Needs("core_gitsync_edit")),
            Ask("post", Needs("core_gitsync_edit", 400), is_form=True),
        ),
        use_key_of("git_sync"),
    ),
    "delete-git-sync": Row(
        (
            get(Needs("core_gitsync_delete")),
            Ask("post", Needs("core_gitsync_delete", 302), is_form=True),
        ),
        use_key_of("git_sync"),
    ),
    "request-git-sync": Row(
        (Ask("post", Needs("core_gitsync_edit", 302), is_form=True),), use_key_of("git_sync")
    ),
    "api-git-syncs": Row(
        (
            get(Lists("core_gitsync_view")),
            Ask("post", Needs("core_gitsync_edit", 400), body=_new_body),
        )
    ),
    "api-git-sync": Row(
        (
            get(Needs("core_gitsync_view")),
            Ask("put", Needs("core_gitsync_edit", 400), body=_body),
            Ask("delete", Needs("core_gitsync_delete", 204)),
        ),
        use_key_of("git_sync"),
    ),
    "api-git-sync-request": Row((Ask("post", Needs("core_gitsync_edit", 409)),), use_key_of("git_sync")),
    "set-up-git-sync-hook": Row(
        (
            get(Needs("core_gitsync_edit")),
            Ask("post", Needs("core_gitsync_edit"), body=lambda world: {"provider": "plain"}, is_form=True),
        ),
        use_key_of("git_sync"),
    ),
    "git-sync-hook": Row(
        (Ask("post", Open(401, anonymous=401)),), lambda world: {"key": world.git_sync.hook.key}
    ),
    "api-git-sync-hook": Row(
        (Ask("post", Needs("core_gitsync_edit", 201), body=lambda world: {"provider": "github"}),),
        use_key_of("git_sync"),
    ),
    "api-git-sync-resources": allow_get(Needs("core_gitsync_view"), use_key_of("git_sync")),
    "api-git-sync-proposals": allow_get(Needs("core_gitsync_view"), use_key_of("git_sync")),
    "api-git-sync-proposal": allow_get(
        Needs("core_gitsync_view"),
        lambda world: {"pk": world.git_sync.pk, "proposal": world.git_sync.proposals.get().pk},
    ),
    "api-git-sync-runs": allow_get(Needs("core_gitsync_view"), use_key_of("git_sync")),
}
