"""URLs of pages about this installation."""

from django.urls import path

from ops.pages import retention, system

urlpatterns = [
    path("system/", system, name="system"),
    path("system/retention/", retention, name="retention"),
]
