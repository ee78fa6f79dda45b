"""URLs of the pages of Git syncs."""

from django.urls import path

from gitsync import pages

urlpatterns = [
    path("git-syncs/", pages.show_list, name="git-syncs"),
    path("git-syncs/new/", pages.NewGitSync.as_view(), name="new-git-sync"),
    path("git-syncs/<int:pk>/", pages.show_git_sync, name="git-sync"),
    path("git-syncs/<int:pk>/sync/", pages.sync_now, name="request-git-sync"),
    path("git-syncs/<int:pk>/edit/", pages.EditGitSync.as_view(), name="edit-git-sync"),
    path("git-syncs/<int:pk>/delete/", pages.DeleteGitSync.as_view(), name="delete-git-sync"),
]
