#!/usr/bin/env python3
"""Writes reference.json: what two published Qwen2.5 files must give, evaluated without any code of this repository.

    python3 -m venv VENV && VENV/bin/pip install gguf==0.19.0 numpy==2.4.6 jinja2==3.1.6 tokenizers==0.23.3
    VENV/bin/python bench/real/reference.py MODELS > bench/real/reference.json

MODELS is a folder with the files of FILES. For each file:

  chats    renderings of the file's own chat template by jinja2, set up as transformers sets it up (trim_blocks,
           lstrip_blocks, tojson without escapes), and their ids by the package tokenizers: a byte-level BPE of the
           file's vocabulary and merges, with the pattern of Qwen2 and without normalisation
  logits   of 16 prompts: the 10 best tokens and SAMPLE others with their logits, and the standard deviation of all
           logits. The weights are dequantised by the package gguf, and numpy evaluates the forward pass of Qwen2 in
           float64: this file is all of it

A layer is dequantised at a time, for all prompts together, so the larger file takes about 3 GB of memory. Numbers are
written with 8 digits. It takes about 6 minutes on two cores.
"""

import hashlib
import json
import sys
from pathlib import Path

import gguf
import jinja2
import numpy as np
import tokenizers

FILES = ["qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"]
SAMPLE = 40
BEST = 10

SYSTEM = {"role": "system", "content": "You are terse. Answer in one word."}
ASK = {"role": "user", "content": "Which animal swims ahead of the shark?"}
ANSWER = {"role": "assistant", "content": "The pilot fish."}
NEXT = {"role": "user", "content": "  And why?\n"}
TOOL = {"type": "function", "function": {
    "name": "weather", "description": "Weather <now> & \"here\" in Zürich", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"]}}}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"type": "function", "function": {"name": "weather", "arguments": {"city": "北京", "days": 2}}}]}
RESULT = {"role": "tool", "content": "{\"degrees\": 21}"}

CHATS = {
    "one turn": [ASK],
    "with a system message": [SYSTEM, ASK],
    "an empty system message": [{"role": "system", "content": ""}, ASK],
    "several turns": [ASK, ANSWER, NEXT],
    "several turns with a system message": [SYSTEM, ASK, ANSWER, NEXT],
    "a system message in the middle": [ASK, ANSWER, SYSTEM, NEXT],
    "other scripts": [{"role": "user", "content": "¿Qué pez nada delante del tiburón? 鲨鱼前面游的是什么鱼？ 🐟🦈"}],
    "tools": [ASK],
    "tools with a system message": [SYSTEM, ASK],
    "a call of a tool": [SYSTEM, ASK, CALL, RESULT, ANSWER, NEXT],
}


def long_text():
    """1,846 tokens that do not repeat."""
    seas = ["the North Sea", "the Baltic", "the Red Sea", "the Coral Sea", "the Bay of Biscay"]
    acts = ["follows a shark", "hides under a boat", "eats what is left over", "leaves the shoal", "swims ahead"]
    return "Log of the research vessel.\n" + "\n".join(
        f"Day {d}: in {seas[d * 7 % 5]}, {3 + d * d % 17} miles off the coast, a pilot fish of {12 + d % 9} cm "
        f"{acts[d * 3 % 5]} at {d % 24:02}:{d * 13 % 60:02}." for d in range(1, 50)) + "\nSummary: the pilot fish"


TEXTS = {
    "one word": "The",
    "prose": "The pilot fish is a small fish that lives in warm seas, and it is known for",
    "python": "def fibonacci(n: int) -> int:\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n    if n < 2:\n        return",
    "go": "func reverse[T any](s []T) {\n\tfor i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {\n\t\ts[i], s[j] =",
    "sql": "SELECT name, COUNT(*) FROM fish WHERE length > 12 GROUP BY",
    "json": "{\"name\": \"pilot fish\", \"genus\": \"Naucrates\", \"length_cm\": [30, 70], \"seas\": [",
    "chinese": "领航鱼是一种小型鱼类，经常在鲨鱼身边游动。它们",
    "mixed scripts": "Straße, naïve café, Ελλάδα, Привет, こんにちは, مرحبا, नमस्ते:",
    "digits": "3.14159265358979323846264338327950288419716939937510",
    "emoji": "🐟🦈🌊 👩‍👩‍👧‍👦 🇨🇭 fish emoji:",
    "blanks": "\n\n\n   \t\t  x\r\n    y \u00a0 z\n",
    "address": "https://example.org/a/b?q=%20#frag 0xDEADBEEF deadbeef-1234",
    "long": long_text(),
}


def metadata(reader, key):
    return reader.fields[key].contents()


def tokenizer_of(reader):
    """A byte-level BPE from the file's own lists."""
    tokens = metadata(reader, "tokenizer.ggml.tokens")
    kinds = metadata(reader, "tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ")) for m in metadata(reader, "tokenizer.ggml.merges")]
    vocab = {t: i for i, t in enumerate(tokens) if kinds[i] == 1}
    t = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=merges))
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
               r"|\s+(?!\S)|\s+")
    t.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    special = {s: tokens.index(s) for s in ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")}

    def encode(text):
        """Ids, with the tokens of the template recognised."""
        ids = []
        while text:
            at, name = min(((text.find(s), s) for s in special if s in text), default=(len(text), None))
            ids += t.encode(text[:at], add_special_tokens=False).ids
            if name is None:
                break
            ids.append(special[name])
            text = text[at + len(name):]
        return ids

    return encode


def template_of(reader):
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda v: json.dumps(v, ensure_ascii=False)
    return env.from_string(metadata(reader, "tokenizer.chat_template"))


class Qwen2:
    """The forward pass, a layer at a time for several texts."""

    def __init__(self, reader):
        self.tensors = {t.name: t for t in reader.tensors}
        get = lambda k: metadata(reader, "qwen2." + k)
        self.layers, self.heads = get("block_count"), get("attention.head_count")
        self.kv_heads, self.eps = get("attention.head_count_kv"), get("attention.layer_norm_rms_epsilon")
        self.base, self.dim = get("rope.freq_base"), get("embedding_length")

    def weight(self, name, rows=slice(None)):
        t = self.tensors[name]
        return gguf.quants.dequantize(t.data[rows], t.tensor_type).astype(np.float64)

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.weight(name)

    def rotate(self, x):
        """x is [tokens, heads, size]: pairs (i, i + size/2) turn by position · base^(-2i/size)."""
        half = x.shape[-1] // 2
        angle = np.arange(len(x))[:, None] * float(self.base) ** (-np.arange(half) / half)
        cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def attend(self, q, k, v):
        """Causal attention of one text: q [tokens, heads, size], k and v [tokens, kv_heads, size]."""
        q, k = self.rotate(q), self.rotate(k)
        out = np.empty_like(q)
        mask = np.triu(np.full((len(q), len(q)), -np.inf), 1)
        for h in range(self.heads):
            g = h * self.kv_heads // self.heads
            s = q[:, h] @ k[:, g].T / np.sqrt(q.shape[-1]) + mask
            s = np.exp(s - s.max(-1, keepdims=True))
            out[:, h] = s / s.sum(-1, keepdims=True) @ v[:, g]
        return out.reshape(len(q), -1)

    def logits(self, texts):
        """Logits after the last token of each text."""
        ends = np.cumsum([len(t) for t in texts])
        x = self.weight("token_embd.weight", np.concatenate(texts))
        size = self.dim // self.heads
        for l in range(self.layers):
            print(f"layer {l} of {self.layers}", file=sys.stderr)
            at = lambda name: self.weight(f"blk.{l}.{name}")
            h = self.norm(x, f"blk.{l}.attn_norm.weight")
            q, k, v = (h @ at(f"attn_{c}.weight").T + at(f"attn_{c}.bias") for c in "qkv")
            parts = [np.split(m.reshape(len(x), -1, size), ends[:-1]) for m in (q, k, v)]
            x = x + np.concatenate([self.attend(*p) for p in zip(*parts)]) @ at("attn_output.weight").T
            h = self.norm(x, f"blk.{l}.ffn_norm.weight")
            gate = h @ at("ffn_gate.weight").T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ at("ffn_up.weight").T)) @ at("ffn_down.weight").T
        last = self.norm(x[ends - 1], "output_norm.weight")
        head = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        rows = len(self.tensors[head].data)
        return np.concatenate([last @ self.weight(head, slice(i, i + 8192)).T for i in range(0, rows, 8192)], -1)


def reference(path):
    reader = gguf.GGUFReader(path)
    encode, template = tokenizer_of(reader), template_of(reader)
    chats = []
    for name, messages in CHATS.items():
        tools = [TOOL] if "tool" in name else None
        text = template.render(messages=messages, tools=tools, add_generation_prompt=True)
        chats.append({"name": name, "messages": messages, "tools": tools, "text": text, "ids": encode(text)})
    prompts = [{"name": "chat, " + c["name"], "text": c["text"], "ids": c["ids"]} for c in chats
               if c["name"] in ("one turn", "with a system message", "several turns")]
    prompts += [{"name": name, "text": text, "ids": encode(text)} for name, text in TEXTS.items()]
    number = lambda v: float(f"{v:.8g}")
    drawn = np.random.default_rng(1).choice(151643, SAMPLE, replace=False)
    for p, logits in zip(prompts, Qwen2(reader).logits([p["ids"] for p in prompts])):
        best = np.argsort(-logits, kind="stable")[:BEST]
        p["deviation"] = number(logits.std())
        p["best"] = [[int(i), number(logits[i])] for i in best]
        p["others"] = [[int(i), number(logits[i])] for i in drawn if i not in best]
    with open(path, "rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    return {"file": Path(path).name, "sha256": digest, "chats": chats, "prompts": prompts}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    results = [reference(Path(sys.argv[1]) / name) for name in FILES]
    print("[" + ",\n".join("{" + ",\n".join(
        json.dumps(k) + ": " + ("[\n" + ",\n".join(json.dumps(e, ensure_ascii=False) for e in v) + "\n]"
                                if isinstance(v, list) else json.dumps(v)) for k, v in r.items()) + "}"
        for r in results) + "]")
