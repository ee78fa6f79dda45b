"""URLs of the REST API of this installation."""

from django.urls import path

from ops.api import acceptance_runs

urlpatterns = [
    path("acceptance-runs", acceptance_runs.AcceptanceRuns.as_view(), name="api-acceptance-runs"),
    path("acceptance-runs/plan", acceptance_runs.PlanAcceptanceRun.as_view(), name="api-acceptance-plan"),
    path(
        "acceptance-runs/<int:pk>", acceptance_runs.AcceptanceRunDetail.as_view(), name="api-acceptance-run"
    ),
    path(
        "acceptance-runs/<int:pk>/cancel",
        acceptance_runs.CancelAcceptanceRun.as_view(),
        name="api-cancel-acceptance-run",
    ),
    path(
        "acceptance-runs/<int:pk>/clean-up",
        acceptance_runs.DeleteAcceptanceLeftovers.as_view(),
        name="api-delete-acceptance-leftovers",
    ),
]
