"""API of users and user groups."""

from typing import Any

from django.db.models import Count, Q, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from guards.limits import GROUP_MEMBERS
from rbac import operations
from rbac.models import User, UserGroup
from rbac.policy import get_permissions
from rbac.queries import list_visible_users
from web.api.parameters import LIST_PARAMETERS, ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER
from web.api.views import BaseApiView
from web.http.problems import BadInput

VIEW = "core_usergroup_view"
SEARCH_PARAMETER = OpenApiParameter(
    "search", OpenApiTypes.STR, description="Part of a user name, name or email address."
)


class MemberDocument(serializers.Serializer[Any]):
    """Member of a group."""

    id = serializers.IntegerField()
    username = serializers.CharField()


class UserDocument(MemberDocument):
    """User."""

    name = serializers.CharField(source="get_full_name")
    email = serializers.CharField()
    is_active = serializers.BooleanField()
    last_login = serializers.DateTimeField(allow_null=True)


class GroupSummary(serializers.Serializer[Any]):
    """User group; with an `external_name`, single sign-on manages its members."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    scope = serializers.CharField(source="scope.path")
    external_name = serializers.CharField()
    user_count = serializers.IntegerField()


class GroupDocument(GroupSummary):
    """User group with its members."""

    users = MemberDocument(source="users.all", many=True)


class GroupChange(serializers.Serializer[Any]):
    """Writable fields of a group; `users` are user ids."""

    name = serializers.CharField(required=False, max_length=128)
    external_name = serializers.CharField(required=False, allow_blank=True, max_length=255)
    users = serializers.ListField(
        child=serializers.IntegerField(min_value=1), required=False, max_length=int(GROUP_MEMBERS)
    )


class GroupInput(GroupChange):
    """Fields of a new group; by default the identifier is derived from the name."""

    name = serializers.CharField(max_length=128)
    scope = serializers.CharField(max_length=400)
    identifier = serializers.CharField(required=False, default="", max_length=128)


class UserListView(BaseApiView):
    """Visible users."""

    @extend_schema(parameters=[SEARCH_PARAMETER, *PAGE_PARAMETERS], responses=UserDocument(many=True))
    def get(self, request: Request) -> Response:
        people = list_visible_users(self.principal)
        if search := request.GET.get("search", "").strip():
            columns = ("username", "email", "first_name", "last_name")
            search_filter = Q()
            for column in columns:
                search_filter |= Q(**{f"{column}__icontains": search})
            people = people.filter(search_filter)
        return self.paginate(people, UserDocument)


class UserDetailView(BaseApiView):
    """User."""

    @extend_schema(responses=UserDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(UserDocument(self.get_row(list_visible_users(self.principal), pk=pk)).data)


class UserGroupListView(BaseApiView):
    """User groups."""

    @extend_schema(parameters=LIST_PARAMETERS, responses=GroupSummary(many=True))
    def get(self, request: Request) -> Response:
        return self.list_visible(VIEW, _list_groups(), GroupSummary)

    @extend_schema(request=GroupInput, responses={201: GroupDocument})
    def post(self, request: Request) -> Response:
        data = self.get_validated_body(GroupInput)
        scope = self.get_scope(data.pop("scope"))
        data["users"] = _get_users(data.get("users", []), list_visible_users(self.principal))
        group = operations.create_user_group(actor=self.principal, scope=scope, **data)
        return Response(_build_group_document(group.pk), status=201)


class UserGroupDetailView(BaseApiView):
    """User group."""

    @extend_schema(responses=GroupDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(GroupDocument(self._get_group(pk)).data)

    @extend_schema(request=GroupChange, responses=GroupDocument)
    def patch(self, request: Request, pk: int) -> Response:
        """Update a group; `users` replace the current members."""
        group = self._get_group(pk)
        data = self.get_validated_body(GroupChange)
        selectable_users = User.objects.filter(
            Q(pk__in=list_visible_users(self.principal).values("pk")) | Q(pk__in=group.users.values("pk"))
        )
        if "users" in data:
            data["users"] = _get_users(data["users"], selectable_users)
        operations.update_user_group(actor=self.principal, group=group, **data)
        return Response(_build_group_document(group.pk))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        operations.delete_user_group(actor=self.principal, group=self._get_group(pk))
        return Response(status=204)

    def _get_group(self, pk: int) -> UserGroup:
        return self.get_visible(VIEW, _list_groups(), pk=pk)


def _list_groups() -> QuerySet[UserGroup]:
    return UserGroup.objects.select_related("scope").annotate(user_count=Count("users"))


def _build_group_document(pk: int) -> dict[str, Any]:
    return GroupDocument(_list_groups().get(pk=pk)).data


def _get_users(keys: list[int], selectable_users: QuerySet[User]) -> list[User]:
    users = {user.pk: user for user in selectable_users.filter(pk__in=keys)}
    errors = [
        {"path": f"users.{index}", "message": "does not exist in this scope"}
        for index, key in enumerate(keys)
        if key not in users
    ]
    if errors:
        raise BadInput("The input is not valid.", errors=errors)
    return list(users.values())


class MeDocument(serializers.Serializer[Any]):
    """User of the API key or session."""

    id = serializers.IntegerField()
    username = serializers.CharField()
    email = serializers.CharField()
    name = serializers.CharField(source="get_full_name")


class PermissionsDocument(serializers.Serializer[Any]):
    """Permissions of the caller in a scope."""

    scope = serializers.CharField()
    permissions = serializers.ListField(child=serializers.CharField())


class CurrentUserView(BaseApiView):
    """Current user."""

    @extend_schema(responses=MeDocument)
    def get(self, request: Request) -> Response:
        return Response(MeDocument(self.principal).data)


class CurrentUserPermissionsView(BaseApiView):
    """Permissions of the caller in a scope: the account, or the one of ?org= and ?project=."""

    @extend_schema(parameters=[ORG_PARAMETER, PROJECT_PARAMETER], responses=PermissionsDocument)
    def get(self, request: Request) -> Response:
        scope = self.get_named_scope()
        granted = sorted(get_permissions(self.principal, scope))
        return Response({"scope": scope.path, "permissions": granted})
