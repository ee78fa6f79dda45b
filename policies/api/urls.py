"""URLs of the REST API of policy rules."""

from django.urls import path

from policies.api import evaluations, rules

urlpatterns = [
    path("policy-rules", rules.PolicyRuleListView.as_view(), name="api-policy-rules"),
    path("policy-rules/evaluate", evaluations.EvaluationView.as_view(), name="api-policy-evaluation"),
    path("policy-rules/<int:pk>", rules.PolicyRuleDetailView.as_view(), name="api-policy-rule"),
]
