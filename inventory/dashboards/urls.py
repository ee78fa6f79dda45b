"""Addresses of the pages of the overview."""

from django.urls import path

from inventory.dashboards.pages import dashboard, events, matrix, overview

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("figures/", overview.figures_of_days, name="overview-figures"),
    path("running/", matrix.what_runs_where, name="what-runs-where"),
    path("events/", events.events, name="events"),
    path("services/<int:pk>/dashboard/", dashboard.dashboard, name="service-dashboard"),
    path("services/<int:pk>/compare/", dashboard.compare, name="compare-deployments"),
    path(
        "services/<int:pk>/deployments/<int:deployment>/return/",
        dashboard.return_to_deployment,
        name="return-to-deployment",
    ),
]
