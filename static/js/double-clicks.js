// Forms of a page: a double click sends one once. A form whose answer is a download can be sent again a moment later.

const DOUBLE_CLICK = 3000;

let sent = {};
addEventListener("pageshow", () => { sent = {}; });
// On the window, so that every other listener has decided before.
addEventListener("submit", (event) => {
  const { target: form, timeStamp: at } = event;
  if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
  if (form === sent.form && at - sent.at < DOUBLE_CLICK) event.preventDefault();
  else sent = { form, at };
});
