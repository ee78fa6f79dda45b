"""Git syncs in the admin site, read-only."""

from django.contrib import admin

from connectors.admin import ReadOnlyAdmin
from gitsync.models import GitSync
from gitsync.operations import VIEW


@admin.register(GitSync)
class GitSyncAdmin(ReadOnlyAdmin):
    """Admin list of Git syncs."""

    permission = VIEW
    list_display = ("identifier", "name", "branch", "folder", "scope", "state", "is_enabled")
    search_fields = ("identifier", "name")
