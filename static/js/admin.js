// Administration pages: what the framework's scripts draw, named so that screen readers read it.

const nameSearchFields = () => {
  for (const field of document.querySelectorAll(".select2-search__field:not([aria-label])")) field.setAttribute("aria-label", "Search");
  for (const box of document.querySelectorAll(".select2-selection[role=combobox]:not([aria-label]), .select2-selection__rendered[role=textbox]:not([aria-label])")) {
    const select = box.closest(".select2")?.previousElementSibling;
    box.setAttribute("aria-label", select?.labels?.[0]?.textContent.trim() || "Choose");
  }
};
// Select boxes draw their search field when the page is ready, when they open, and after each choice.
new MutationObserver(nameSearchFields).observe(document.documentElement, { childList: true, subtree: true });
nameSearchFields();

// Choosers of many are drawn when the page has loaded, by a listener that is older than this one.
addEventListener("load", () => {
  for (const help of document.querySelectorAll("span.help-tooltip[aria-label]")) help.setAttribute("role", "img");
});
