"""URLs of pages, REST API and WebSockets."""

from typing import Any, cast

from channels.routing import URLRouter
from django.contrib import admin
from django.urls import include, path, re_path

from deployments.consumers import BadgeConsumer, ExecutionConsumer
from web.documentation import documentation
from web.http.origin_policy import record_csp_reports
from web.live.consumers import TopicConsumer
from web.live.socket_middleware import reject_unknown_socket
from web.navigation import set_theme

urlpatterns = [
    path("", include("inventory.urls")),
    path("", include("accounts.urls")),
    path("", include("accounts.authentication_urls")),
    path("", include("deployments.urls")),
    path("", include("pipelines.urls")),
    path("", include("catalog.urls")),
    path("", include("delegates.urls")),
    path("", include("connectors.urls")),
    path("", include("notifications.urls")),
    path("", include("policies.urls")),
    path("", include("gitsync.urls")),
    path("", include("ops.urls")),
    path("docs/", documentation, name="docs"),
    path("docs/<path:path>", documentation, name="docs-page"),
    path("csp-reports", record_csp_reports, name="csp-reports"),
    path("theme/", set_theme, name="theme"),
    path("admin/", admin.site.urls),
    path("api/", include("web.api.urls")),
    path("api/v1/", include("accounts.api.urls")),
    path("api/v1/", include("connectors.api.urls")),
    path("api/v1/", include("notifications.api.urls")),
    path("api/v1/", include("policies.api.urls")),
    path("api/v1/", include("delegates.api.urls")),
    path("api/v1/", include("catalog.api.urls")),
    path("api/v1/", include("pipelines.api.urls")),
    path("api/v1/", include("deployments.api.urls")),
    path("api/v1/", include("inventory.api.urls")),
    path("api/v1/", include("gitsync.api.urls")),
    path("api/v1/", include("ops.api.urls")),
]

handler400 = "web.http.error_pages.handler400"
handler403 = "web.http.error_pages.handler403"
handler404 = "web.http.error_pages.handler404"
handler500 = "web.http.error_pages.handler500"

websocket_urlpatterns = [
    path("ws/executions/<uuid:pk>/", ExecutionConsumer.as_asgi()),
    path("ws/approvals/", BadgeConsumer.as_asgi()),
    path("ws/live/", TopicConsumer.as_asgi()),
]
websocket_routes = URLRouter([*websocket_urlpatterns, re_path("", cast(Any, reject_unknown_socket))])
