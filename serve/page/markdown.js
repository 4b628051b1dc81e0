"use strict";
// Markdown becomes elements and text nodes, never markup: HTML in a text is shown as text.
const markdown = markdownit({ html: false, maxNesting: 30 }).disable("lheading"); // "text\n-" may become a list
const inlineMath = /\$\$[^]+?\$\$|\$(?![\s$])[^$\n]*?[^\s\\$]\$(?!\d)|\\\([^]+?\\\)|\\\[[^]+?\\\]/y;

// Mathematics between $ $, $$ $$, \( \) or \[ \] stays as it is written: no emphasis, no escapes.
markdown.inline.ruler.before("escape", "math", (state, silent) => {
  if (!/[$\\]/.test(state.src[state.pos])) return false;
  inlineMath.lastIndex = state.pos;
  const found = inlineMath.exec(state.src)?.[0];
  if (!found || state.pos + found.length > state.posMax) return false;
  if (!silent) state.push("math", "span", 0).content = found;
  state.pos += found.length;
  return true;
});

// A block of it goes on to the line that ends it, or to the end of the text while that is still being written.
markdown.block.ruler.before("fence", "math", (state, first, last, silent) => {
  const line = (n) => state.src.slice(state.bMarks[n] + state.tShift[n], state.eMarks[n]).trimEnd();
  const begin = line(first), end = begin.startsWith("$$") ? "$$" : begin.startsWith("\\[") ? "\\]" : "";
  if (end === "") return false;
  let n = first;
  while (n < last && !(line(n).endsWith(end) && (n > first || begin.length >= 4))) n++;
  if (n === last && begin.length > 2) return false;
  if (silent) return true;
  const token = state.push("math", "div", 0);
  token.block = true;
  token.map = [first, state.line = Math.min(n + 1, last)];
  token.content = state.getLines(first, state.line, state.blkIndent, false).trimEnd();
  return true;
}, { alt: ["paragraph", "blockquote", "list"] });

function make(tag, kind, text) {
  const e = document.createElement(tag);
  if (kind) e.className = kind;
  if (text) e.textContent = text;
  return e;
}

// kindOf returns the class of a token, by who chose it.
function kindOf(t) {
  if (t.unverified || t.origin === "edge-timeout" && t.asked) return "t late";
  if (t.origin !== "cloud") return "t";
  return t.edge_text ? "t cloud changed" : "t cloud";
}

// Marker appends parts of a source text to elements, in spans by token.
class Marker {
  constructor(source, tokens) {
    Object.assign(this, { source, tokens, at: 0, end: source.length, next: 0 }); // tokens: {start, end, of}
  }

  // within goes on to a part of the source.
  within(from, end = this.end) {
    this.at = Math.max(this.at, from);
    this.end = end;
  }

  // add appends a text, which is a part of the source, perhaps with other blanks or without escapes.
  add(text, into) {
    for (const line of text.split(/(?<=\n)/)) {
      const found = this.source.slice(this.at, this.end).indexOf(line);
      if (found >= 0) {
        this.at += found;
        this.#put(line, into);
        continue;
      }
      for (const c of line) {
        const near = this.source.slice(this.at, this.end).indexOf(c);
        if (near >= 0 && near < 50) this.at += near;
        this.#put(c, into, near >= 0 && near < 50);
      }
    }
  }

  #put(text, into, known = true) {
    while (text !== "") {
      while (this.next < this.tokens.length && this.tokens[this.next].end <= this.at) this.next++;
      const t = this.tokens[this.next], inside = t && t.start <= this.at;
      const n = !known ? text.length : inside ? t.end - this.at : t ? t.start - this.at : text.length;
      const part = text.slice(0, n), last = into.lastChild;
      if (!inside) into.append(part);
      else if (last?.token === t.of) last.append(part);
      else into.appendChild(Object.assign(make("span", kindOf(t.of), part), { token: t.of }));
      text = text.slice(n);
      if (known) this.at += part.length;
    }
  }
}

// element returns the element of an opening token.
function element(t) {
  if (t.type === "heading_open") return make("h" + Math.min(6, +t.tag[1] + 2)); // below those of the page
  if (t.type === "link_open" || t.type === "image") {
    const to = t.attrGet(t.type === "image" ? "src" : "href");
    if (!/^(https?|mailto):/i.test(to)) return make("span");
    return Object.assign(make("a"), { href: to, rel: "noopener noreferrer", target: "_blank", title: to });
  }
  const e = make(t.tag);
  if (t.attrGet("start")) e.start = +t.attrGet("start");
  if (t.attrGet("style")) e.style.textAlign = t.attrGet("style").replace("text-align:", "");
  return e;
}

// build appends the elements of Markdown's tokens. codeBox makes the box of a block of code.
function build(tokens, into, marker, lines, codeBox) {
  const open = [into];
  for (const t of tokens) {
    const top = open.at(-1);
    if (t.map && t.nesting >= 0) marker.within(lines[t.map[0]]);
    if (t.nesting < 0) open.pop();
    else if (t.nesting > 0 && t.hidden) open.push(top); // the paragraph of an item of a dense list
    else if (t.type === "table_open") open.push(top.appendChild(make("div", "table")).appendChild(make("table")));
    else if (t.nesting > 0) open.push(top.appendChild(element(t)));
    else if (t.type === "inline") build(t.children, top, marker, lines, codeBox);
    else if (t.type === "softbreak" || t.type === "hardbreak") marker.add("\n", top);
    else if (t.type === "fence" || t.type === "code_block") marker.add(t.content, codeBox(t.info.trim(), top));
    else if (t.type === "math") marker.add(t.content, top.appendChild(make(t.tag, "math")));
    else if (t.type === "image") marker.add(t.content, top.appendChild(element(t)));
    else if (t.type === "code_inline") marker.add(t.content, top.appendChild(make("code")));
    else if (t.type === "hr") top.append(make("hr"));
    else marker.add(t.content, top);
  }
}

// View shows a Markdown text that grows. Blocks that stay the same are built once.
class View {
  #blocks = []; // {source, node, and where it is}
  constructor(into, codeBox) {
    Object.assign(this, { into, codeBox });
  }

  // show shows a text with its tokens, or with plain as it was written.
  show(text, tokens, plain) {
    const lines = [0];
    for (let at = 0; (at = text.indexOf("\n", at) + 1) > 0;) lines.push(at);
    const blocks = plain ? [] : this.#split(markdown.parse(text, {}), text, lines);
    let n = 0; // blocks that stay as they are
    while (n < blocks.length && blocks[n].source === this.#blocks[n]?.source) n++;
    for (const old of this.#blocks.splice(n)) old.node.remove();
    const marker = new Marker(text, tokens);
    for (const b of blocks.slice(n)) {
      const box = make("div");
      marker.within(b.from, b.end);
      build(b.tokens, box, marker, lines, this.codeBox);
      b.node = box.childElementCount === 1 ? box.firstChild : box;
      this.into.append(b.node);
      this.#blocks.push(b);
    }
    if (plain) {
      const node = this.into.appendChild(make("p"));
      marker.add(text, node);
      this.#blocks.push({ source: null, node });
    }
  }

  #split(tokens, text, lines) {
    const blocks = [];
    for (const t of tokens) {
      if (t.level === 0 && t.nesting >= 0) {
        const from = lines[t.map[0]], end = lines[t.map[1]] ?? text.length;
        blocks.push({ source: text.slice(from, end), from, end, tokens: [] });
      }
      blocks.at(-1).tokens.push(t);
    }
    return blocks;
  }
}
