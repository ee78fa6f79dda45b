"""URLs of pages about this installation."""

from django.urls import path

from ops.pages import acceptance_runs, system

urlpatterns = [
    path("system/", system.system, name="system"),
    path("system/retention/", system.retention, name="retention"),
    path("system/acceptance/", acceptance_runs.list_runs, name="acceptance-runs"),
    path("system/acceptance/new/", acceptance_runs.NewAcceptanceRun.as_view(), name="new-acceptance-run"),
    path("system/acceptance/clusters/", acceptance_runs.choose_cluster, name="acceptance-clusters"),
    path("system/acceptance/<int:pk>/", acceptance_runs.show_run, name="acceptance-run"),
    path(
        "system/acceptance/<int:pk>/report.<str:suffix>",
        acceptance_runs.download_report,
        name="acceptance-report",
    ),
    path(
        "system/acceptance/<int:pk>/cancel/",
        acceptance_runs.CancelAcceptanceRun.as_view(),
        name="cancel-acceptance-run",
    ),
    path(
        "system/acceptance/<int:pk>/clean-up/",
        acceptance_runs.DeleteAcceptanceLeftovers.as_view(),
        name="delete-acceptance-leftovers",
    ),
]
