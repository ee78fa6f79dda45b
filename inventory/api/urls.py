"""URLs of the REST API of the overview, dashboards, instances, drift and adoption."""

from django.urls import path

from inventory.api import adoptions, daemons, dashboards, drift, instances, strategy_changes

urlpatterns = [
    path("overview", dashboards.OverviewRoute.as_view(), name="api-overview"),
    path("running", dashboards.EnvironmentMatrixRoute.as_view(), name="api-what-runs-where"),
    path("events", dashboards.EventsRoute.as_view(), name="api-events"),
    path(
        "services/<int:pk>/dashboard",
        dashboards.ServiceDashboardRoute.as_view(),
        name="api-service-dashboard",
    ),
    path(
        "services/<int:pk>/deployments",
        dashboards.ServiceDeploymentsRoute.as_view(),
        name="api-service-deployments",
    ),
    path(
        "services/<int:pk>/compare",
        dashboards.CompareDeploymentsRoute.as_view(),
        name="api-compare-deployments",
    ),
    path(
        "services/<int:pk>/deployments/<int:deployment>/return",
        dashboards.RedeployRoute.as_view(),
        name="api-return-to-deployment",
    ),
    path(
        "services/<int:pk>/instances", instances.ServiceInstancesRoute.as_view(), name="api-service-instances"
    ),
    path(
        "infrastructures/<int:pk>/sync",
        instances.InfrastructureSyncRoute.as_view(),
        name="api-infrastructure-sync",
    ),
    path("drift", drift.DriftListRoute.as_view(), name="api-drift"),
    path("drift/<int:pk>", drift.ServiceDriftRoute.as_view(), name="api-drift-of-service"),
    path("drift/<int:pk>/scan", drift.RequestDriftScanRoute.as_view(), name="api-scan-drift"),
    path("drift/<int:pk>/accept", drift.AcceptDriftRoute.as_view(), name="api-accept-drift"),
    path("drift/<int:pk>/withdraw", drift.RevokeDriftAcceptanceRoute.as_view(), name="api-withdraw-drift"),
    path("infrastructures/<int:pk>/daemons", daemons.DaemonsRoute.as_view(), name="api-daemons"),
    path(
        "infrastructures/<int:pk>/unknown-services",
        adoptions.UnmanagedServicesRoute.as_view(),
        name="api-unknown-services",
    ),
    path("infrastructures/<int:pk>/adoptions", adoptions.AdoptionsRoute.as_view(), name="api-adoptions"),
    path(
        "pipelines/<int:pk>/strategy",
        strategy_changes.PipelineStrategyRoute.as_view(),
        name="api-pipeline-strategy",
    ),
    path(
        "pipelines/<int:pk>/strategy/preview",
        strategy_changes.PreviewPipelineStrategyRoute.as_view(),
        name="api-preview-pipeline-strategy",
    ),
    path("adoptions/<int:pk>", adoptions.AdoptionDetailRoute.as_view(), name="api-adoption"),
    path("adoptions/<int:pk>/adopt", adoptions.AdoptServiceRoute.as_view(), name="api-adopt"),
    path("adoptions/<int:pk>/undo", adoptions.UndoAdoptionRoute.as_view(), name="api-undo-adoption"),
]
