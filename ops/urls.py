"""URLs of pages about this installation."""

from django.urls import path

from ops.pages import system

urlpatterns = [path("system/", system, name="system")]
