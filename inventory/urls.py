"""URLs of the pages of the overview, dashboards, instances, drift and adoption."""

from django.urls import path
from django.views.decorators.http import require_safe
from django.views.generic import RedirectView

from inventory.pages import (
    adoptions,
    daemons,
    drift,
    environments,
    events,
    instances,
    overview,
    rollbacks,
    search,
    services,
    strategy_changes,
)

urlpatterns = [
    path("", overview.show_overview, name="overview"),
    path("figures/", overview.show_statistics, name="overview-figures"),
    path("search/", search.show_results, name="search"),
    path("search/hits/", search.render_hits, name="search-hits"),
    path("services/", services.list_services, name="services"),
    path("environments/", environments.list_environments, name="environments"),
    path("environments/<int:pk>/", environments.show_environment, name="environment"),
    path("inventory/", services.show_environment_matrix, name="inventory"),
    path(
        "running/",
        require_safe(RedirectView.as_view(pattern_name="inventory", query_string=True)),
        name="old-inventory",
    ),
    path("events/", events.list_events, name="events"),
    path("services/<int:pk>/dashboard/", services.show_dashboard, name="service-dashboard"),
    path("services/<int:pk>/compare/", services.compare_deployments_page, name="compare-deployments"),
    path(
        "services/<int:pk>/deployments/<int:deployment>/return/",
        rollbacks.confirm_rollback,
        name="return-to-deployment",
    ),
    path(
        "services/<int:pk>/rollback/<int:infrastructure>/",
        rollbacks.choose_deployment,
        name="choose-rollback",
    ),
    path("deployments/<uuid:pk>/rollback-to/", rollbacks.choose_stage, name="choose-rollback-stage"),
    path("instances/", instances.list_instances, name="instances"),
    path("infrastructures/<int:pk>/sync/", instances.request_sync, name="sync-infrastructure"),
    path("services/<int:pk>/instances/", instances.list_service_instances_page, name="service-instances"),
    path("drift/", drift.list_drift, name="drift"),
    path("drift/<int:pk>/", drift.show_comparison, name="drift-of-service"),
    path("drift/<int:pk>/scan", drift.request_scan, name="scan-drift"),
    path("drift/<int:pk>/decide", drift.decide_drift, name="decide-about-drift"),
    path(
        "infrastructures/<int:pk>/unknown/", adoptions.list_unmanaged_services_page, name="unknown-services"
    ),
    path("infrastructures/<int:pk>/daemons/", daemons.list_daemons_page, name="daemons"),
    path("infrastructures/<int:pk>/unknown/read", adoptions.read_service, name="read-for-adoption"),
    path(
        "services/<int:pk>/strategy/",
        strategy_changes.choose_service_stage,
        name="change-service-strategy",
    ),
    path(
        "pipelines/<int:pk>/strategy/",
        strategy_changes.change_pipeline_strategy,
        name="change-strategy",
    ),
    path("adoptions/<int:pk>/", adoptions.show_adoption, name="adoption"),
    path("adoptions/<int:pk>/undo", adoptions.UndoAdoption.as_view(), name="undo-adoption"),
]
