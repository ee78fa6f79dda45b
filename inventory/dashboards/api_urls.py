"""Addresses of the REST API of the overview."""

from django.urls import path

from inventory.dashboards.api import routes

urlpatterns = [
    path("overview", routes.Overview.as_view(), name="api-overview"),
    path("running", routes.WhatRunsWhere.as_view(), name="api-what-runs-where"),
    path("events", routes.Events.as_view(), name="api-events"),
    path("services/<int:pk>/dashboard", routes.DashboardOfService.as_view(), name="api-service-dashboard"),
    path(
        "services/<int:pk>/deployments",
        routes.DeploymentsOfService.as_view(),
        name="api-service-deployments",
    ),
    path("services/<int:pk>/compare", routes.ComparedDeployments.as_view(), name="api-compare-deployments"),
    path(
        "services/<int:pk>/deployments/<int:deployment>/return",
        routes.ReturnToDeployment.as_view(),
        name="api-return-to-deployment",
    ),
]
