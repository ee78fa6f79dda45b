// Notice on a page whose session has ended: what was entered stays, and can be sent after a sign-in in another tab.

import { h, find, shape } from "./dom.js";

// A sign-in in another tab has changed the token of this browser.
const readToken = () => document.cookie.match(/(?:^|; )csrftoken=([^;]+)/)?.[1];

// A form that is sent, and one that a script sends by itself.
function refreshToken({ formData }) {
  const token = readToken();
  if (token && formData.has("csrfmiddlewaretoken")) formData.set("csrfmiddlewaretoken", token);
}

function refreshRequestToken({ detail: { parameters } }) {
  if (parameters.csrfmiddlewaretoken) parameters.csrfmiddlewaretoken = readToken() ?? parameters.csrfmiddlewaretoken;
}

let notice = null;

export function showSessionEnd() {
  if (notice?.isConnected) return;
  if (!notice) {
    document.addEventListener("formdata", refreshToken);
    document.addEventListener("htmx:configRequest", refreshRequestToken);
  }
  const signIn = h("a", { href: "/sign-in/", target: "_blank", rel: "noopener" }, "Sign in in another tab");
  const text = h("span", {}, signIn, ", then continue here. What you entered stays on this page.");
  notice = h("div", { class: "message tone-waiting session-end", role: "alert" }, shape("s-waiting", "icon mark"));
  notice.append(h("div", {}, h("strong", {}, "Your session has ended"), text));
  find("main").prepend(notice);
}
