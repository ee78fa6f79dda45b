"""Addresses of signing in, and of what a person looks after at their own account."""

from django.urls import path

from access.views import sign_in

urlpatterns = [
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("admin/login/", sign_in.admin_sign_in, name="admin-sign-in"),
]
