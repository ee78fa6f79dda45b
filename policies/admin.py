"""Policy rules in the admin site, read-only."""

from django.contrib import admin

from connectors.admin import ReadOnlyAdmin
from policies.models import PolicyRule
from policies.operations import VIEW


@admin.register(PolicyRule)
class PolicyRuleAdmin(ReadOnlyAdmin):
    """Admin list of policy rules."""

    permission = VIEW
    list_display = ("identifier", "name", "subject", "effect", "scope", "is_enabled")
    search_fields = ("identifier", "name")
