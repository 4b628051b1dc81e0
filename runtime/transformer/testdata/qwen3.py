"""Writes qwen3.json: what Qwen3 models of random weights answer, by a float64 evaluation of their dequantised weights.

    pip install numpy gguf
    go test ./runtime/transformer -run TestQwen3Golden -models FOLDER
    python3 runtime/transformer/testdata/qwen3.py FOLDER

The test writes the models; their weights are those of bench/synth for a seed. This evaluation shares no code with the
program: files are read and dequantised by the package gguf. Formulas: "Qwen3 Technical Report", arXiv 2505.09388, and
transformers' modeling_qwen3. Prompts are the first of a seeded generator after which 64 greedy tokens have clear winners.
"""

import hashlib
import json
import pathlib
import sys

import numpy as np
from gguf import GGUFReader, dequantize

PROMPT, STEPS, CLEAR = 20, 64, 2e-3


class Model:
    def __init__(self, path):
        f = GGUFReader(path)
        self.w = {t.name: np.float64(dequantize(t.data, t.tensor_type)) for t in f.tensors}
        self.sha256 = hashlib.sha256(b"".join(t.data.tobytes() for t in f.tensors)).hexdigest()
        value = lambda key: f.fields["qwen3." + key].contents()
        self.layers, self.eps = value("block_count"), value("attention.layer_norm_rms_epsilon")
        self.heads, self.kv_heads = value("attention.head_count"), value("attention.head_count_kv")
        self.size, self.base = value("attention.key_length"), value("rope.freq_base")
        self.vocabulary = len(self.w["token_embd.weight"])
        self.keys, self.values = [[] for _ in range(self.layers)], [[] for _ in range(self.layers)]

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + self.eps) * self.w[name]

    def rotate(self, x, pos):
        half = self.size // 2
        angle = pos * self.base ** (-np.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)

    def step(self, token):
        """Returns the logits after token, and keeps its keys and values."""
        w, pos = self.w, len(self.keys[0])
        x = w["token_embd.weight"][token]
        for i in range(self.layers):
            at = f"blk.{i}."
            h = self.norm(x, at + "attn_norm.weight")
            q, k, v = ((w[f"{at}attn_{m}.weight"] @ h).reshape(-1, self.size) for m in "qkv")
            q = self.rotate(self.norm(q, at + "attn_q_norm.weight"), pos)
            self.keys[i].append(self.rotate(self.norm(k, at + "attn_k_norm.weight"), pos))
            self.values[i].append(v)
            group = self.heads // self.kv_heads
            keys, values = (np.repeat(np.stack(s[i], 1), group, 0) for s in (self.keys, self.values))
            score = np.einsum("hd,htd->ht", q, keys) / np.sqrt(self.size)
            score = np.exp(score - score.max(-1, keepdims=True))
            mixed = np.einsum("ht,htd->hd", score / score.sum(-1, keepdims=True), values)
            x = x + w[at + "attn_output.weight"] @ mixed.ravel()
            h = self.norm(x, at + "ffn_norm.weight")
            gate = w[at + "ffn_gate.weight"] @ h
            x = x + w[at + "ffn_down.weight"] @ (gate / (1 + np.exp(-gate)) * (w[at + "ffn_up.weight"] @ h))
        h = self.norm(x, "output_norm.weight")
        return w.get("output.weight", w["token_embd.weight"]) @ h


def answer(path):
    for seed in range(100):
        model = Model(path)
        prompt = np.random.default_rng(seed).integers(0, model.vocabulary, PROMPT).tolist()
        for token in prompt:
            logits = model.step(token)
        first, greedy, margin = logits, [], np.inf
        for _ in range(STEPS):
            second, best = np.sort(logits)[-2:]
            margin = min(margin, (best - second) / np.std(logits))
            greedy.append(int(np.argmax(logits)))
            if margin < CLEAR:
                break
            logits = model.step(greedy[-1])
        if len(greedy) == STEPS and margin >= CLEAR and len(set(greedy)) > 2:
            return {
                "sha256": model.sha256,
                "prompt": prompt,
                "greedy": greedy,
                "logits": [float(f"{x:.7g}") for x in first],
            }
    raise SystemExit(f"{path}: no prompt has clear winners")


answers = {path.stem: answer(path) for path in sorted(pathlib.Path(sys.argv[1]).glob("*.gguf"))}
lines = [f"{json.dumps(name)}: {json.dumps(a)}" for name, a in answers.items()]
pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
