"""URLs of the REST API of Git syncs."""

from django.urls import path

from gitsync.api import git_syncs

urlpatterns = [
    path("git-syncs", git_syncs.GitSyncListView.as_view(), name="api-git-syncs"),
    path("git-syncs/<int:pk>", git_syncs.GitSyncDetailView.as_view(), name="api-git-sync"),
    path("git-syncs/<int:pk>/sync", git_syncs.GitSyncRequestView.as_view(), name="api-git-sync-request"),
    path("git-syncs/<int:pk>/webhook", git_syncs.GitSyncHookView.as_view(), name="api-git-sync-hook"),
    path(
        "git-syncs/<int:pk>/resources",
        git_syncs.GitSyncResourceListView.as_view(),
        name="api-git-sync-resources",
    ),
    path(
        "git-syncs/<int:pk>/proposals",
        git_syncs.GitSyncProposalListView.as_view(),
        name="api-git-sync-proposals",
    ),
    path(
        "git-syncs/<int:pk>/proposals/<uuid:proposal>",
        git_syncs.GitSyncProposalView.as_view(),
        name="api-git-sync-proposal",
    ),
    path("git-syncs/<int:pk>/runs", git_syncs.GitSyncRunListView.as_view(), name="api-git-sync-runs"),
]
