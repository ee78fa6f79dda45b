"""Every named address of the site with all that can be asked of it: a new address without a row fails."""

from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver

from tests.api.access_rows import ACCESS
from tests.api.connector_rows import CONNECTORS
from tests.api.delegate_rows import DELEGATES
from tests.api.deployment_rows import DEPLOYMENTS
from tests.api.git_sync_rows import GIT_SYNCS
from tests.api.import_rows import IMPORTS
from tests.api.page_rows import PAGES
from tests.api.policy_rows import POLICIES
from tests.api.requests import Ask, Row, allow_get, get, new_rule_body, rule_body, use_key_of
from tests.api.required_access import Lists, Needs, Open, SignedIn

ROWS: dict[str, Row] = {
    # Signing in, probes, descriptions: for everybody.
    "sign-in": Row((get(Open(302, anonymous=200)),)),
    "sign-out": Row((Ask("post", Open(302, anonymous=302), is_form=True),)),
    "admin-sign-in": Row((get(Open(403, anonymous=302)),)),
    "theme": Row((Ask("post", Open(302, anonymous=302), is_form=True),)),
    "csp-reports": Row((Ask("post", Open(204, anonymous=204)),)),
    "schema": allow_get(Open()),
    "docs-api": allow_get(Open()),
    "docs-api-resource": allow_get(Open(), lambda world: {"tag": "connectors"}),
    # No test has the documentation built, but those of tests/web/test_documentation.py.
    "docs": Row((get(Open(404, anonymous=404)),)),
    "docs-page": Row((get(Open(404, anonymous=404)),), lambda world: {"path": "reference/"}),
    **PAGES,
    **ACCESS,
    # Why work waits: for everybody who is signed in.
    "api-delays": allow_get(SignedIn()),
    # Notification rules.
    "api-notification-rules": Row(
        (
            get(Lists("core_notificationrule_view")),
            Ask("post", Needs("core_notificationrule_edit", 201), body=new_rule_body),
        )
    ),
    "api-notification-rule": Row(
        (
            get(Needs("core_notificationrule_view")),
            Ask("put", Needs("core_notificationrule_edit"), body=rule_body),
            Ask("delete", Needs("core_notificationrule_delete", 204)),
        ),
        use_key_of("notification_rule"),
    ),
    "api-notifications": Row(
        (
            get(Needs("core_notificationrule_view")),
            Ask("post", Needs("core_notificationrule_edit", 201)),
        ),
        use_key_of("notification_rule"),
    ),
    "api-notification-again": Row(
        (Ask("post", Needs("core_notificationrule_edit")),), use_key_of("notification")
    ),
    **CONNECTORS,
    **DELEGATES,
    **DEPLOYMENTS,
    **POLICIES,
    **GIT_SYNCS,
    **IMPORTS,
}


def names_of(patterns: list[Any]) -> Iterator[str]:
    for pattern in patterns:
        # The admin site has tests of its own, in tests/rbac/test_admin.py.
        if isinstance(pattern, URLResolver) and pattern.namespace != "admin":
            yield from names_of(pattern.url_patterns)
        elif isinstance(pattern, URLPattern):
            yield pattern.name or f"without a name: {pattern.pattern}"
