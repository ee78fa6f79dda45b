"""Pages of roles: list, and permissions and holders of one role."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.queries.granted_roles import list_granted_roles
from accounts.queries.roles import ROLE_FILTERS, count_assignments, describe_permissions, list_roles
from accounts.queries.user_groups import get_visible_group_ids
from rbac.models import Role, RoleAssignment
from rbac.policy import NotVisible
from rbac.queries import list_visible_roles
from web.forms.lists import build_name_filter, paginate_list, read_list_options
from web.forms.pages import PageRequest, require_sign_in

MAX_HOLDERS: Final = 200


@require_sign_in
@require_safe
def show_roles(request: PageRequest) -> HttpResponse:
    """List the built-in roles and those of the chosen scope."""
    options, scope = read_list_options(request, ROLE_FILTERS), request.current_scope
    roles = list_roles(request.user, scope, options.filter).filter(build_name_filter(options.text))
    page = paginate_list(roles, request, options)
    counts = count_assignments(request.user, page.items)
    context = {
        "page": page,
        "roles": [(role, counts.get(role.pk, 0)) for role in page.items],
        "options": options,
    }
    return render(request, "accounts/roles/list.html", context)


@require_sign_in
@require_safe
def show_role(request: PageRequest, pk: int) -> HttpResponse:
    """Show the permissions of a role in words, and the people and groups that have it."""
    role = _get_role(request, pk)
    granted = {row.permission for row in role.permissions.all()}
    rows = RoleAssignment.objects.filter(role=role)
    holders = list_granted_roles(request.user, rows, request.current_scope, MAX_HOLDERS)
    context = {
        "role": role,
        "permissions": describe_permissions(granted),
        "holders": holders,
        "visible_groups": get_visible_group_ids(request.user, holders),
        "max_holders": MAX_HOLDERS,
    }
    return render(request, "accounts/roles/role.html", context)


def _get_role(request: PageRequest, pk: int) -> Role:
    roles = list_visible_roles(request.user).select_related("scope")
    role = roles.prefetch_related("permissions").filter(pk=pk).first()
    if role is None:
        raise NotVisible("This role does not exist, or you cannot view it.")
    return role
