"use strict";
// The conversation and the key are in this page's memory and nowhere else.
const $ = (id) => document.getElementById(id);
let turns = []; // of this conversation: see turnOf
let running = null; // {turn, stop}: the answer that is being generated
let editing = null; // the turn with the question that is being edited
let cloud = null; // the large model as the server describes it; null: there is none
let key = "";

function say(text) {
  $("status").textContent = text;
}

function button(name, label, act) {
  const b = make("button", "small", name);
  b.type = "button";
  b.setAttribute("aria-label", label);
  b.addEventListener("click", act);
  return b;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // without HTTPS there is no clipboard, except on loopback
    const area = document.body.appendChild(make("textarea"));
    area.value = text;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function copyButton(what, text) {
  return button("Copy", "Copy " + what, async () =>
    say(await copy(text()) ? "Copied " + what : "This browser does not allow copying " + what));
}

// codeBox appends a box for a block of code, and returns the element for its text.
function codeBox(language, into) {
  const box = into.appendChild(make("div", "code")), bar = box.appendChild(make("div"));
  const pre = box.appendChild(make("pre")), code = pre.appendChild(make("code"));
  pre.tabIndex = 0; // for scrolling by keyboard
  pre.setAttribute("role", "group");
  pre.setAttribute("aria-label", "Code " + language);
  bar.append(make("span", "", language || "code"), copyButton("code", () => code.textContent));
  return code;
}

// follow keeps the end of the conversation in sight, unless somebody reads further up.
function follow(change) {
  const m = $("scroll"), near = m.scrollHeight - m.scrollTop - m.clientHeight < 80;
  change();
  if (near) m.scrollTop = m.scrollHeight;
}

// What is wrong, in the words of this page, and what to do.

class Trouble extends Error {}

const advice = {
  rate_limit_exceeded: () => "The server is busy: as many requests wait as it takes. Retry in a moment.",
  draining: () => "The server is shutting down. Start it again with pilotfish serve, then retry.",
  context_length_exceeded: (m) => m[0].toUpperCase() + m.slice(1) + ". Delete earlier messages, or begin a new chat.",
  request_too_large: () => "The conversation is larger than the server takes. Begin a new chat.",
  timeout: () => "The answer took longer than the server allows (--limit request-timeout). Lower the limit of tokens.",
  internal_error: () => "The model failed; the log of pilotfish serve says why. Retry, or restart the server.",
  invalid_api_key: () => key ? "This API key is not the server's. Give one that is in its list."
    : "This server wants an API key.",
  host_not_allowed: () => elsewhere(), origin_not_allowed: () => elsewhere(),
};

const gone = () => "There is no answer from the server at " + location.host +
  ". Is pilotfish serve still running there? Start it again, then retry.";
const elsewhere = () => "The server refuses pages at this address. Open it as localhost or 127.0.0.1, or start it with " +
  "--cors-origin " + location.origin + ".";

function trouble(error, status) {
  const words = error?.message ?? "The server answered with status " + status + ".";
  return new Trouble(advice[error?.code]?.(words) ?? words);
}

// request sends a request, and returns the response if it is none of an error.
async function request(method, path, body, signal) {
  const headers = body ? { "Content-Type": "application/json" } : {};
  if (key) headers.Authorization = "Bearer " + key;
  const r = await fetch(path, { method, headers, body, signal }).catch(() => { throw new Trouble(gone()); });
  if (r.ok) return r;
  if (r.status === 401) askForKey();
  throw trouble((await r.json().catch(() => null))?.error, r.status);
}

function askForKey() {
  $("key").hidden = false;
  $("secret").focus();
}

// The server's models, and the state of the connection to the gateway.

const percent = (x) => +(100 * x).toPrecision(2) + "%";

function asksFor() {
  if (cloud.verify) return "every token is verified by the large model" +
    (cloud.budget ? ", which replaces at most " + percent(cloud.budget) + " of them" : "");
  if (cloud.threshold != null) return "asked where the small model's confidence is below " + percent(cloud.threshold);
  if (cloud.budget) return "asked for at most " + percent(cloud.budget) + " of the tokens, the least certain ones";
  return cloud.policy === "never" ? "it is never asked" : "asked for every token";
}

function showServer(name) {
  const large = cloud?.model || "a large model";
  $("model").title = $("model").textContent = cloud?.model ? name + " + " + cloud.model : name;
  document.title = name + " - Pilotfish";
  $("title").textContent = cloud ? "Two models answer together" : "One model answers, on this device";
  $("what").textContent = !cloud ? "Nothing of this conversation leaves it. With pilotfish serve --cloud HOST:PORT, " +
      "a large model replaces the few tokens that this one has wrong."
    : cloud.verify ? "The small model on this device writes the answer. The large model at the gateway reads along, " +
      "and replaces the few tokens that it is sure are wrong, before they are shown."
    : "The small model on this device writes the answer. For the few tokens that it is unsure of, it asks the large " +
      "model at the gateway, and writes on while the reply comes.";
  const facts = cloud ? { "Small model": name + ", on this device", "Large model": large, Gateway: cloud.to,
    Budget: asksFor(), Connection: cloud.connected ? "connected"
      : "not connected: the small model answers alone, and the connection is tried again" } : { Model: name };
  $("facts").replaceChildren(...Object.entries(facts).flatMap(([k, v]) => [make("dt", "", k), make("dd", "", v)]));
  state(!cloud ? "on this device" : cloud.connected ? "connected to " + cloud.to : cloud.to + " cannot be reached",
    cloud && !cloud.connected ? "down" : "up");
  $("keep").hidden = !cloud;
  document.body.classList.toggle("alone", !cloud);
  $("local").disabled = Boolean(cloud?.verify && cloud.policy !== "verify"); // the server would refuse it
}

function state(text, kind) {
  if ($("link").textContent !== text) $("link").textContent = text;
  $("link").className = "about " + kind;
}

// look asks the server for its models and its gateway.
async function look() {
  try {
    const list = await (await request("GET", "v1/models")).json();
    cloud = list.pilotfish?.cloud ?? null;
    showServer(list.data[0].id);
    $("key").hidden = true;
  } catch (e) {
    state("no server", "down");
    throw e;
  }
}

async function begin() {
  try {
    await look();
    say("");
    $("question").focus();
  } catch (e) {
    say(e.message);
  }
}

// The conversation.

// turnOf shows a question, with an answer that is still empty.
function turnOf(question) {
  const t = { question, local: false };
  t.asked = article("user", "You", copyButton("the question", () => t.question),
    button("Edit", "Edit the question", () => edit(t)), button("Delete", "Delete question and answer", () => remove(t)));
  t.asked.body.textContent = question;
  t.shown = article("assistant", "Answer", copyButton("the answer", () => t.text),
    t.plain = button("Source", "Source of the answer", () => {
      t.plain.setAttribute("aria-pressed", t.plain.getAttribute("aria-pressed") !== "true");
      draw(t);
    }), button("Regenerate", "Regenerate the answer", () => again(t, true)));
  t.plain.setAttribute("aria-pressed", false);
  t.shown.body.tabIndex = 0;
  t.shown.body.setAttribute("role", "group");
  t.shown.body.setAttribute("aria-label", "Answer: arrow keys move through its tokens");
  clear(t);
  return t;
}

function article(kind, name, ...buttons) {
  const all = make("article", kind), head = all.appendChild(make("header")), body = all.appendChild(make("div", "text"));
  all.setAttribute("aria-label", name);
  head.append(make("span", "", name), ...buttons);
  $("log").append(all);
  return { all, body };
}

// clear empties the answer of a turn.
function clear(t) {
  Object.assign(t, { text: "", tokens: [], thought: "", finish: "", receipt: null, begun: 0, view: null });
  t.shown.body.replaceChildren();
  for (const e of t.shown.all.querySelectorAll(":scope > p")) e.remove();
  t.view = new View(t.shown.body, codeBox);
}

function draw(t) {
  t.due = false;
  hideTip();
  follow(() => t.view.show(t.text, t.tokens, t.plain.getAttribute("aria-pressed") === "true"));
}

// truncate removes a turn and those after it.
function truncate(from) {
  if (running && turns.indexOf(running.turn) >= from) running.stop.abort();
  for (const t of turns.splice(from)) for (const part of [t.asked, t.shown]) part.all.remove();
  $("hello").hidden = turns.length > 0;
}

function remove(t) {
  if (running?.turn === t) running.stop.abort();
  turns.splice(turns.indexOf(t), 1);
  for (const part of [t.asked, t.shown]) part.all.remove();
  $("hello").hidden = turns.length > 0;
  say("Deleted a question and its answer");
  $("question").focus();
}

function edit(t) {
  stopEditing();
  editing = t;
  t.asked.all.classList.add("editing");
  $("question").value = t.question;
  $("question").focus();
  say("Sending replaces the marked question and all that follows it. Escape cancels.");
}

function stopEditing() {
  editing?.asked.all.classList.remove("editing");
  editing = null;
}

// again answers a question anew, without what follows it. other wants another answer, and not the likeliest one.
function again(t, other) {
  if (running) return say("An answer is being generated: stop it first.");
  truncate(turns.indexOf(t) + 1);
  clear(t);
  return answer(t, other);
}

function ask(text) {
  if (editing) truncate(turns.indexOf(editing));
  stopEditing();
  const t = turnOf(text);
  turns.push(t);
  $("hello").hidden = true;
  $("scroll").scrollTop = $("scroll").scrollHeight;
  return answer(t, false);
}

// body is the request for the answer of a turn.
function body(turn, other) {
  const mark = (t, message) => t.local ? { ...message, pilotfish: { local: true } } : message;
  const messages = [];
  if ($("system").value.trim() !== "") messages.push({ role: "system", content: $("system").value });
  for (const t of turns.slice(0, turns.indexOf(turn) + 1)) {
    if (t !== turn && t.text === "") continue; // nothing was said to it
    messages.push(mark(t, { role: "user", content: t.question }));
    if (t !== turn) messages.push(mark(t, { role: "assistant", content: t.text }));
  }
  const temperature = $("temperature").valueAsNumber || 0;
  return JSON.stringify({ messages, stream: true, temperature: other ? temperature || 0.8 : temperature,
    max_tokens: $("most").valueAsNumber || undefined, pilotfish: { provenance: true } });
}

// events yields the data of server-sent events.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const p of parts) if (p.startsWith("data: ")) yield p.slice(6);
  }
}

// receive adds the chunks of an answer to a turn as they come. They are drawn once a frame.
async function receive(t, other, signal) {
  const r = await request("POST", "v1/chat/completions", body(t, other), signal);
  try {
    for await (const data of events(r.body)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw trouble(chunk.error);
      t.receipt = chunk.pilotfish?.receipt ?? t.receipt;
      if (chunk.choices?.[0]) take(t, chunk.choices[0]);
      if (!t.due) requestAnimationFrame(() => t.due && draw(t));
      t.due = true;
    }
  } catch (e) {
    if (e instanceof Trouble) throw e;
  }
  throw new Trouble("The connection to the server broke off before the end of the answer. " +
    "Is pilotfish serve still running? Then retry.");
}

function take(t, choice) {
  const text = choice.delta?.content ?? "", thought = choice.delta?.reasoning_content ?? "";
  if (thought !== "") {
    if (t.thought === "") t.shown.body.before(make("p", "about thought"));
    t.thought += thought;
    t.shown.body.previousSibling.textContent = t.thought;
  }
  let at = 0;
  for (const of of choice.pilotfish?.tokens ?? []) {
    t.begun ||= performance.now();
    const start = t.text.length + at, fits = text.startsWith(of.text, at); // not behind a stop string
    if (fits) at += of.text.length;
    t.tokens.push({ start, end: t.text.length + at, of });
  }
  t.text += text;
  t.finish = choice.finish_reason ?? t.finish;
}

// about says what an answer took, and what left this device for it.
function about(t, stopped) {
  const count = (is) => t.tokens.filter((x) => is(x.of)).length, n = t.tokens.length;
  const late = count((x) => x.asked && x.origin === "edge-timeout"), unchecked = count((x) => x.unverified);
  const parts = [n === 1 ? "1 token" : n + " tokens"];
  const asked = cloud?.verify ? "verified" : "asked " + count((x) => x.asked || x.origin === "cloud");
  if (cloud) parts.push(asked + ", changed " + count((x) => x.edge_text));
  if (late > 0) parts.push(late + " not answered in time");
  if (unchecked > 0) parts.push(unchecked + " not verified in time");
  if (n > 1) parts.push(((n - 1) / (performance.now() - t.begun) * 1000).toFixed(1) + " tokens/s");
  if (t.finish === "length") parts.push("cut off at the limit of tokens");
  if (stopped) parts.push("stopped");
  const r = t.receipt;
  if (cloud && r) parts.push(r.to ? `sent ${r.tokens} tokens of text (${r.bytes} bytes) to ${r.to}` : "nothing was sent");
  return parts.join(", ");
}

async function answer(t, other) {
  const stop = new AbortController();
  running = { turn: t, stop };
  t.local ||= $("local").checked;
  const waits = t.shown.all.appendChild(make("p", "about", "Reading the conversation …"));
  busy(true);
  let wrong = null;
  try {
    await receive(t, other, stop.signal);
  } catch (e) {
    wrong = e;
  }
  waits.remove();
  draw(t);
  follow(() => {
    if (t.tokens.length > 0 || stop.signal.aborted) t.shown.all.append(make("p", "about", about(t, stop.signal.aborted)));
    if (wrong && !stop.signal.aborted) {
      const p = t.shown.all.appendChild(make("p", "wrong", wrong.message + " "));
      p.append(button("Retry", "Retry the answer", () => again(t, false)));
    }
  });
  if (cloud && t.tokens.some((x) => x.of.origin === "cloud" || x.of.asked)) $("legend").hidden = false;
  if (running?.turn !== t) return; // deleted, or another chat
  running = null;
  busy(false);
  look().catch(() => {});
}

function busy(is) {
  $("log").setAttribute("aria-busy", is);
  $("send").hidden = is;
  $("stop").hidden = !is;
  say(is ? "The model is answering. Escape stops it." : "");
  if (!is && $("key").hidden) $("question").focus({ preventScroll: true });
}

// The token under the pointer or the focus.

function explain(t) {
  if (!cloud) return "The model's confidence: " + percent(t.confidence) + ".";
  const sure = cloud.policy === "always" ? "" : " The small model's confidence: " + percent(t.confidence) + ".";
  if (t.unverified) return "The small model's: the large one did not verify it in time." + sure;
  if (t.edge_text) return `The large model's, in place of the small one's “${t.edge_text}”.` + sure;
  if (t.origin === "cloud") return "Both models': the large one was asked, and agrees." + sure;
  if (t.asked) return "The small model's: the large one was asked, and did not answer in time." + sure;
  if (t.origin === "edge-timeout") return "The small model's: the large one was not asked, as it had been late." + sure;
  return "The small model's" + (cloud.verify ? ", verified by the large one." : ".") + sure;
}

function showTip(e) {
  const tip = $("tip"), box = e.getClientRects()[0];
  if (!box) return;
  tip.replaceChildren(make("strong", "", "“" + e.token.text + "” "), explain(e.token));
  tip.hidden = false;
  tip.style.left = Math.max(4, Math.min(box.left, innerWidth - tip.offsetWidth - 4)) + "px";
  tip.style.top = (box.top > tip.offsetHeight + 8 ? box.top - tip.offsetHeight - 4 : box.bottom + 4) + "px";
}

function hideTip() {
  $("tip").hidden = true;
}

// move moves the focus from token to token of an answer; asked: to those of the large model only.
function move(answer, step, asked) {
  const all = [...answer.querySelectorAll(".t")];
  for (let i = all.indexOf(document.activeElement) + step; ; i += step) {
    if (i === -2) i = all.length - 1; // from before the first one backwards
    if (!all[i]) return;
    if (asked && !all[i].matches(".cloud, .late")) continue;
    all[i].tabIndex = -1;
    all[i].setAttribute("aria-describedby", "tip");
    all[i].focus();
    return;
  }
}

$("log").addEventListener("pointerover", (e) => e.target.token ? showTip(e.target) : hideTip());
$("log").addEventListener("click", (e) => e.target.token && showTip(e.target)); // a touch has left by then
$("log").addEventListener("focusin", (e) => e.target.token ? showTip(e.target) : hideTip());
for (const end of ["pointerleave", "focusout"]) $("log").addEventListener(end, hideTip);
$("scroll").addEventListener("scroll", hideTip);
$("log").addEventListener("keydown", (e) => {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[e.key];
  const answer = e.target.closest(".assistant > .text");
  if (!step || !answer || e.target.closest("pre, button") && !e.target.token) return;
  e.preventDefault();
  move(answer, step, e.key === "ArrowUp" || e.key === "ArrowDown");
});

// The controls.

$("ask").addEventListener("submit", (e) => {
  e.preventDefault();
  const text = $("question").value;
  if (text.trim() === "") return;
  if (running) return say("An answer is being generated: stop it first.");
  $("question").value = "";
  ask(text);
});
$("question").addEventListener("keydown", (e) => {
  if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
  e.preventDefault();
  $("ask").requestSubmit();
});
$("stop").addEventListener("click", () => running?.stop.abort());
document.addEventListener("keydown", (e) => {
  if (e.key !== "Escape") return;
  if (!$("tip").hidden) return hideTip();
  if (editing) {
    stopEditing();
    $("question").value = "";
    return say("");
  }
  running?.stop.abort();
});
$("fresh").addEventListener("click", () => {
  truncate(0);
  running = null;
  stopEditing();
  $("legend").hidden = true;
  busy(false);
});
$("local").addEventListener("change", (e) => {
  const stays = turns.some((t) => t.local);
  say(e.target.checked ? "From the next message on, this conversation stays on this device."
    : stays ? "This conversation has messages that stay here, so all of it does. A new chat does not." : "");
});
$("colours").addEventListener("change", (e) => document.body.classList.toggle("coloured", e.target.checked));
$("key").addEventListener("submit", (e) => {
  e.preventDefault();
  key = $("secret").value.trim();
  begin();
});
for (const text of ["Who discovered penicillin?", "Who wrote Moby-Dick, and in which year?",
  "Write a Go function that reverses a string."]) {
  const b = $("try").appendChild(make("button", "", text));
  b.type = "button";
  b.addEventListener("click", () => !running && ask(text));
}
setInterval(() => document.hidden || running || look().catch(() => {}), 10000);
begin();
