"""URLs of the REST API of notification rules."""

from django.urls import path

from notifications.api import rules

urlpatterns = [
    path("notification-rules", rules.NotificationRuleListView.as_view(), name="api-notification-rules"),
    path(
        "notification-rules/<int:pk>",
        rules.NotificationRuleDetailView.as_view(),
        name="api-notification-rule",
    ),
    path(
        "notification-rules/<int:pk>/notifications",
        rules.NotificationListView.as_view(),
        name="api-notifications",
    ),
    path(
        "notifications/<uuid:pk>/send-again",
        rules.NotificationResendView.as_view(),
        name="api-notification-again",
    ),
]
