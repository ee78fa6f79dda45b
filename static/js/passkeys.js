// Passkeys: buttons that ask the browser for one before their form is sent.

import { find } from "./dom.js";

const REFUSALS = {
  AbortError: "No passkey was used. Try again.",
  InvalidStateError: "This device already has a passkey for your account.",
  NotAllowedError: "No passkey was used: you canceled, or it took too long.",
  NotSupportedError: "This device cannot make such a passkey.",
  SecurityError: "The browser refuses passkeys at this address.",
};

// What the server refuses, in its own words.
class Refusal extends Error {}

function decode(text) {
  const bytes = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(bytes, (letter) => letter.charCodeAt(0));
}

function encode(buffer) {
  const bytes = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const decodeAll = (credentials = []) => credentials.map((credential) => ({ ...credential, id: decode(credential.id) }));

async function fetchOptions(address, form) {
  const response = await fetch(address, { method: "POST", body: new FormData(form), headers: { Accept: "application/json" } });
  const answer = await response.json();
  if (!response.ok) throw new Refusal(answer.detail);
  return { ...answer.publicKey, challenge: decode(answer.publicKey.challenge) };
}

function format(credential, names) {
  const parts = names.filter((name) => credential.response[name]).map((name) => [name, encode(credential.response[name])]);
  return JSON.stringify({ id: credential.id, rawId: encode(credential.rawId), type: credential.type, response: Object.fromEntries(parts) });
}

async function getPasskey(address, form) {
  const options = await fetchOptions(address, form);
  const publicKey = { ...options, allowCredentials: decodeAll(options.allowCredentials) };
  const credential = await navigator.credentials.get({ publicKey });
  return format(credential, ["clientDataJSON", "authenticatorData", "signature", "userHandle"]);
}

async function createPasskey(address, form) {
  const options = await fetchOptions(address, form);
  const user = { ...options.user, id: decode(options.user.id) };
  const publicKey = { ...options, user, excludeCredentials: decodeAll(options.excludeCredentials) };
  const credential = await navigator.credentials.create({ publicKey });
  return format(credential, ["clientDataJSON", "attestationObject"]);
}

async function fill(form, { passkeyGet, passkeyCreate }) {
  if (!window.PublicKeyCredential) throw new Refusal("This browser has no passkeys at this address.");
  if (passkeyGet) form.elements.assertion.value = await getPasskey(passkeyGet, form);
  if (passkeyCreate) form.elements.registration.value = await createPasskey(passkeyCreate, form);
}

function show(form, text) {
  const problem = find("[data-passkey-problem]", form);
  problem.hidden = !text;
  problem.lastElementChild.textContent = text;
}

const filled = new WeakSet();

async function onSubmit(event) {
  const { target: form, submitter } = event;
  if (!submitter?.matches("[data-passkey-get], [data-passkey-create]") || filled.has(form)) return;
  event.preventDefault();
  show(form, "");
  submitter.disabled = true;
  let text = "";
  try {
    await fill(form, submitter.dataset);
    filled.add(form);
  } catch (error) {
    text = error instanceof Refusal ? error.message : REFUSALS[error.name] || "The passkey did not work. Try again.";
  }
  submitter.disabled = false;
  if (text) show(form, text);
  else form.requestSubmit(submitter);
}

document.addEventListener("submit", onSubmit);
