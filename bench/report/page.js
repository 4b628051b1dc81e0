"use strict";
// Shows the answers of the run that is chosen, if the page has answers.
const data = JSON.parse(document.getElementById("data")?.textContent ?? "null");
const byId = (id) => document.getElementById(id);
const step = 20;
let shown = step;

function element(name, kind, text) {
  const e = document.createElement(name);
  if (kind) e.className = kind;
  if (text !== undefined) e.textContent = text;
  return e;
}

function card(question, answer) {
  const a = element("article");
  const head = element("h3", "", question.id + " ");
  head.append(element("span", answer.verdict, answer.verdict));
  a.append(head, element("div", "question", question.text));
  const text = element("div", "answer");
  for (const [kind, piece] of answer.spans) text.append(element("span", kind, piece));
  if (answer.stop === "no room") text.append(element("em", "", "The question does not fit the context."));
  a.append(text);
  const facts = answer.cloud + " of " + answer.tokens + " tokens from the large model" +
    (answer.stop === "end" ? "" : ", ended by: " + answer.stop) + (question.key ? "; right is: " + question.key : "");
  a.append(element("div", "soft", facts));
  return a;
}

function show() {
  const run = Number(byId("run").value), verdict = byId("verdict").value, text = byId("text").value.toLowerCase();
  const list = data.questions.filter((q) => {
    const a = q.answers[q.of[run]];
    return (!verdict || a.verdict === verdict) &&
      (!text || (q.text + " " + a.spans.map((s) => s[1]).join("")).toLowerCase().includes(text));
  });
  byId("count").textContent = list.length + " of " + data.questions.length;
  byId("answers").replaceChildren(...list.slice(0, shown).map((q) => card(q, q.answers[q.of[run]])));
  byId("more").hidden = list.length <= shown;
}

if (data) {
  data.runs.forEach((name, i) => byId("run").append(new Option(name, i)));
  byId("filter").addEventListener("input", () => { shown = step; show(); });
  byId("filter").addEventListener("submit", (e) => e.preventDefault());
  byId("more").addEventListener("click", () => { shown += 5 * step; show(); });
  show();
}
