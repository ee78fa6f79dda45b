"""Addresses of the pages of this app."""

from django.urls import path

from notifications.pages import rules, sending

urlpatterns = [
    path("notifications/", rules.rules, name="notification-rules"),
    path("notifications/new/", rules.new_rule, name="new-notification-rule"),
    path("notifications/<int:pk>/", rules.rule, name="notification-rule"),
    path("notifications/<int:pk>/edit/", rules.edit_rule, name="edit-notification-rule"),
    path("notifications/<int:pk>/delete/", rules.remove_rule, name="delete-notification-rule"),
    path("notifications/<int:pk>/test/", sending.test, name="test-notification-rule"),
    path("notifications/sent/<uuid:pk>/again/", sending.again, name="notification-again"),
]
