// Notice on a page whose session has ended: what was entered stays, and can be sent after a sign-in in another tab.

import { h, find, shape } from "./dom.js";

let notice = null;

export function showSessionEnd() {
  if (notice?.isConnected) return;
  const signIn = h("a", { href: "/sign-in/", target: "_blank", rel: "noopener" }, "Sign in in another tab");
  const text = h("span", {}, signIn, ", then continue here. What you entered stays on this page.");
  notice = h("div", { class: "message tone-waiting session-end", role: "alert" }, shape("s-waiting", "icon mark"));
  notice.append(h("div", {}, h("strong", {}, "Your session has ended"), text));
  find("main").prepend(notice);
}

export function hideSessionEnd() {
  notice?.remove();
}
