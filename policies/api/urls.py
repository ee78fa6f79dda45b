"""URLs of the REST API of policy rules."""

from django.urls import path

from policies.api import rules

urlpatterns = [
    path("policy-rules", rules.PolicyRuleListView.as_view(), name="api-policy-rules"),
    path("policy-rules/<int:pk>", rules.PolicyRuleDetailView.as_view(), name="api-policy-rule"),
]
