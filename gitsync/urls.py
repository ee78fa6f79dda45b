"""URLs of the pages of Git syncs."""

from django.urls import path

from gitsync import pages

urlpatterns = [
    path("git-syncs/", pages.show_list, name="git-syncs"),
    path("git-syncs/new/", pages.NewGitSync.as_view(), name="new-git-sync"),
    path("git-syncs/<int:pk>/", pages.show_git_sync, name="git-sync"),
    path("git-syncs/<int:pk>/sync/", pages.sync_now, name="request-git-sync"),
    path("git-syncs/<int:pk>/webhook/", pages.SetUpHook.as_view(), name="set-up-git-sync-hook"),
    path("hooks/v1/git-syncs/<uuid:key>/", pages.receive_hook, name="git-sync-hook"),
    path("git-syncs/<int:pk>/edit/", pages.EditGitSync.as_view(), name="edit-git-sync"),
    path("git-syncs/<int:pk>/delete/", pages.DeleteGitSync.as_view(), name="delete-git-sync"),
]
