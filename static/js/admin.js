// Administration pages: what the framework's scripts draw, named so that screen readers read it.

// Choosers of many are drawn when the page has loaded, by a listener that is older than this one.
addEventListener("load", () => {
  for (const help of document.querySelectorAll("span.help-tooltip[aria-label]")) help.setAttribute("role", "img");
  for (const field of document.querySelectorAll(".select2-search__field:not([aria-label])")) field.setAttribute("aria-label", "Search");
});
