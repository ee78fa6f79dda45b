"""URLs of the pages of notification rules."""

from django.urls import path

from notifications.pages import rules

urlpatterns = [
    path("notifications/", rules.list_rules, name="notification-rules"),
    path("notifications/new/", rules.NewNotificationRule.as_view(), name="new-notification-rule"),
    path("notifications/<int:pk>/", rules.show_rule, name="notification-rule"),
    path("notifications/<int:pk>/edit/", rules.EditNotificationRule.as_view(), name="edit-notification-rule"),
    path(
        "notifications/<int:pk>/delete/",
        rules.DeleteNotificationRule.as_view(),
        name="delete-notification-rule",
    ),
    path("notifications/<int:pk>/test/", rules.test_rule, name="test-notification-rule"),
    path("notifications/sent/<uuid:pk>/again/", rules.resend, name="notification-again"),
]
