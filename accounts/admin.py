"""Removal of the sign-in library's tables from the admin site."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.usersessions.models import UserSession
from django.contrib import admin

admin.site.unregister([EmailAddress, Authenticator, SocialAccount, SocialApp, SocialToken, UserSession])
