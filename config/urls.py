"""Which address leads to which app."""

from typing import Any, cast

from channels.routing import URLRouter
from django.contrib import admin
from django.urls import include, path, re_path

from delegates.consumers import DelegatesConsumer
from deployments.consumers import ExecutionConsumer
from deployments.waiting_consumer import WaitingConsumer
from inventory.dashboards.consumers import ServiceConsumer
from web.csp_reports import csp_reports
from web.documentation import documentation
from web.news.consumer import NewsConsumer
from web.sockets import no_socket
from web.theme import choose_theme

urlpatterns = [
    path("", include("inventory.dashboards.urls")),
    path("", include("accounts.urls")),
    path("", include("accounts.people_urls")),
    path("", include("deployments.urls")),
    path("", include("pipelines.urls")),
    path("", include("catalog.urls")),
    path("", include("inventory.sync.urls")),
    path("", include("inventory.drift.urls")),
    path("", include("delegates.urls")),
    path("", include("connectors.urls")),
    path("", include("notifications.urls")),
    path("", include("ops.urls")),
    path("docs/", documentation, name="docs"),
    path("docs/<path:path>", documentation, name="docs-page"),
    path("csp-reports", csp_reports, name="csp-reports"),
    path("theme/", choose_theme, name="theme"),
    path("admin/", admin.site.urls),
    path("api/", include("web.schema_urls")),
    path("api/v1/", include("accounts.api_urls")),
    path("api/v1/", include("connectors.api_urls")),
    path("api/v1/", include("notifications.api_urls")),
    path("api/v1/", include("delegates.api_urls")),
    path("api/v1/", include("catalog.api_urls")),
    path("api/v1/", include("pipelines.api_urls")),
    path("api/v1/", include("deployments.api_urls")),
    path("api/v1/", include("inventory.sync.api_urls")),
    path("api/v1/", include("inventory.dashboards.api_urls")),
    path("api/v1/", include("inventory.drift.api_urls")),
]

handler400 = "web.views.handler400"
handler403 = "web.views.handler403"
handler404 = "web.views.handler404"
handler500 = "web.views.handler500"

websocket_urlpatterns = [
    path("ws/executions/<uuid:pk>/", ExecutionConsumer.as_asgi()),
    path("ws/delegates/", DelegatesConsumer.as_asgi()),
    path("ws/services/<int:pk>/", ServiceConsumer.as_asgi()),
    path("ws/approvals/", WaitingConsumer.as_asgi()),
    path("ws/news/", NewsConsumer.as_asgi()),
]
websocket_routes = URLRouter([*websocket_urlpatterns, re_path("", cast(Any, no_socket))])
