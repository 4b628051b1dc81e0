"""Byte-level BPE with Qwen2's rule for splitting a text, written for the ASCII texts of the invented world."""

import re
from collections import Counter

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = (END_OF_TEXT, IM_START, IM_END)
MERGES = 509  # with 256 bytes and three specials: a vocabulary of 768

# The rule `qwen2` with letters and digits narrowed to ASCII: the same for ASCII texts.
SPLIT = re.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLIT_SPECIAL = re.compile("(" + "|".join(re.escape(s) for s in SPECIAL) + ")")


def alphabet():
    """Return the character that stands for each byte in a vocabulary file, as GPT-2 chose them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


ALPHABET = alphabet()
BYTES = {c: b for b, c in ALPHABET.items()}


def words(text):
    """Split a text without special tokens into words, each written in the alphabet."""
    if not text.isascii():
        raise ValueError(f"not an ASCII text: {text!r}")
    return ["".join(ALPHABET[b] for b in w.encode()) for w in SPLIT.findall(text)]


def join(parts, pair):
    """Return parts with every occurrence of pair joined, from left to right."""
    out, i = [], 0
    while i < len(parts):
        if parts[i : i + 2] == list(pair):
            out.append(parts[i] + parts[i + 1])
            i += 2
        else:
            out.append(parts[i])
            i += 1
    return out


def learn(texts, merges=MERGES):
    """Return the merges learnt from texts: at each step the most frequent pair, the first in order among equals."""
    counts = Counter(w for t in texts for part in SPLIT_SPECIAL.split(t) if part not in SPECIAL for w in words(part))
    parts = {w: list(w) for w in counts}
    learnt = []
    for _ in range(merges):
        pairs = Counter()
        for w, p in parts.items():
            for pair in zip(p, p[1:]):
                pairs[pair] += counts[w]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        learnt.append(best)
        parts = {w: join(p, best) for w, p in parts.items()}
    return learnt


class Tokenizer:
    """Text to ids and back. Ids are the alphabet in order of byte, the merges in order of learning, the specials."""

    def __init__(self, merges):
        self.merges = merges
        self.vocab = [ALPHABET[b] for b in range(256)] + ["".join(m) for m in merges] + list(SPECIAL)
        self.id = {t: i for i, t in enumerate(self.vocab)}
        self.rank = {m: i for i, m in enumerate(merges)}
        self.known = {}

    def word(self, w):
        """Return the ids of one word: the pair learnt first is joined first."""
        if w not in self.known:
            parts = list(w)
            while True:
                ranked = [p for p in zip(parts, parts[1:]) if p in self.rank]
                if not ranked:
                    break
                parts = join(parts, min(ranked, key=self.rank.get))
            self.known[w] = [self.id[p] for p in parts]
        return self.known[w]

    def encode(self, text):
        """Return the ids of a text; special tokens in it are recognised."""
        ids = []
        for part in SPLIT_SPECIAL.split(text):
            if part in SPECIAL:
                ids.append(self.id[part])
            else:
                ids += [i for w in words(part) for i in self.word(w)]
        return ids

    def decode(self, ids):
        """Return the text of ids."""
        out = b""
        for i in ids:
            t = self.vocab[i]
            out += t.encode() if t in SPECIAL else bytes(BYTES[c] for c in t)
        return out.decode(errors="replace")
