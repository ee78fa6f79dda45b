"""Pages of policy rules."""

import json
from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from policies.bench import count_recent_runs
from policies.forms.rules import RULE_FIELDS, NewPolicyRuleForm, PolicyRuleForm
from policies.models import PolicyRule
from policies.operations import (
    DELETE,
    EDIT,
    VIEW,
    create_rule,
    delete_rule,
    list_visible_rules_above,
    update_rule,
)
from policies.subjects import EXAMPLES
from rbac.models import Scope, User
from rbac.policy import can_anywhere, get_permissions
from web.forms.pages import PageRequest, get_permitted_ids, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import CreatePage, DeletePage, FormPage, ResourcePage, VersionedEditPage
from web.http.pagination import paginate_queryset

# As many rules of scopes above as the list shows.
MOST_ABOVE: Final = 50


def get_rule(request: PageRequest, pk: int) -> PolicyRule:
    """Return a visible rule. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW, PolicyRule.objects.select_related("scope"), pk=pk)


class PolicyRulePage(ResourcePage[PolicyRule]):
    """A page about a policy rule."""

    load = staticmethod(get_rule)
    noun = "policy rule"
    parents = (("Policy rules", "policy-rules"),)
    detail = "policy-rule"


@require_sign_in
@require_safe
def list_rules(request: PageRequest) -> HttpResponse:
    """List the policy rules of the scope, and those of the scopes above that are in force in it."""
    rules = list_visible(request, VIEW, PolicyRule.objects.select_related("scope"))
    scope = request.current_scope or Scope.objects.account()
    above = list(list_visible_rules_above(request.user, scope)[: MOST_ABOVE + 1])
    content = {
        "page": paginate_queryset(rules, request),
        "above": above[:MOST_ABOVE],
        "is_more_above": len(above) > MOST_ABOVE,
        "linked_above": get_permitted_ids(request, VIEW, PolicyRule, above) if above else (),
        "can_add": can_anywhere(request.user, EDIT),
        "may_view": can_anywhere(request.user, VIEW),
    }
    return render(request, "policies/list.html", content)


@require_sign_in
@require_safe
def show_rule(request: PageRequest, pk: int) -> HttpResponse:
    """Show a rule."""
    rule = get_rule(request, pk)
    content = {"rule": rule, "rights": get_permissions(request.user, rule)}
    return render(request, "policies/rule.html", content)


def describe_recent_runs(actor: User, rule: PolicyRule) -> str:
    """Return how many recent executions meet a saved rule; empty if there are none."""
    runs = count_recent_runs(actor, rule)
    if runs is None:
        return ""
    return f" Executions in its scope that meet it: {runs.met} of the last {runs.total}."


class PolicyRuleFormPage(PolicyRulePage, FormPage[PolicyRule]):
    """Form of a rule, beside the examples of all documents."""

    template_name = "policies/form.html"

    def get_done_message(self, saved: Any) -> str:
        """Return the message after saving, with the recent executions that meet the rule."""
        return super().get_done_message(saved) + describe_recent_runs(self.request.user, saved)

    def get_context(self, form: Any) -> dict[str, Any]:
        """Return an example of each document as JSON, by the label of its subject."""
        labels = dict(PolicyRule.Subject.choices)
        return {"examples": [(labels[name], json.dumps(value, indent=2)) for name, value in EXAMPLES.items()]}


class NewPolicyRule(PolicyRuleFormPage, CreatePage[PolicyRule]):
    """Create a policy rule."""

    permission = EDIT
    form_class = NewPolicyRuleForm
    here = "New"
    done = "Policy rule {name} created."

    def save(self, form: NewPolicyRuleForm) -> PolicyRule:
        data = form.cleaned_data
        return create_rule(
            actor=self.request.user,
            scope=data["in_scope"],
            identifier=data["identifier"],
            spec=form.build_spec(),
        )


class EditPolicyRule(PolicyRuleFormPage, VersionedEditPage[PolicyRule]):
    """Edit a policy rule."""

    permission = EDIT
    form_class = PolicyRuleForm
    fields = tuple(name for name in RULE_FIELDS if name != "version")

    def save(self, form: PolicyRuleForm) -> PolicyRule:
        version = self.get_opened_version(form)
        return update_rule(actor=self.request.user, rule=self.object, spec=form.build_spec(), version=version)


class DeletePolicyRule(PolicyRulePage, DeletePage[PolicyRule]):
    """Delete a policy rule."""

    permission = DELETE
    text = "Pipelines, manifests and runs no longer have to meet this rule."

    def perform(self, **values: Any) -> None:
        delete_rule(actor=self.request.user, rule=self.object)
