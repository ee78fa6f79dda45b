"""URLs of the pages of policy rules."""

from django.urls import path

from policies.pages import bench, rules

urlpatterns = [
    path("policy-rules/", rules.list_rules, name="policy-rules"),
    path("policy-rules/new/", rules.NewPolicyRule.as_view(), name="new-policy-rule"),
    path("policy-rules/test/", bench.evaluate_on_bench, name="test-policy-condition"),
    path("policy-rules/<int:pk>/", rules.show_rule, name="policy-rule"),
    path("policy-rules/<int:pk>/edit/", rules.EditPolicyRule.as_view(), name="edit-policy-rule"),
    path("policy-rules/<int:pk>/delete/", rules.DeletePolicyRule.as_view(), name="delete-policy-rule"),
]
