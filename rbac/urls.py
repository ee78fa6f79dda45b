"""Addresses of signing in and out."""

from django.urls import path

from rbac import views

urlpatterns = [
    path("sign-in/", views.sign_in, name="sign-in"),
    path("sign-out/", views.sign_out, name="sign-out"),
    path("admin/login/", views.admin_sign_in, name="admin-sign-in"),
]
