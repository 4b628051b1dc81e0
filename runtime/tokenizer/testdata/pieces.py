"""Writes pieces.json: texts as the expressions of pre-tokenizers cut them.

    python pieces.py > pieces.json

It needs the package regex. Characters are drawn from all categories that the Unicode version of Python has, and have
been the same since.
"""

import json
import random
import sys
import unicodedata

import regex

REST = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
EXPRESSIONS = {
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + REST,
    "qwen35": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + REST,
}
COMMON = " \t\n\r'sStTrReEvVlLdDmM019aZ.,!-_"


def categories():
    found = {}
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        if category not in ("Cn", "Cs"):
            found.setdefault(category, []).append(chr(code))
    return found


def random_text(r, found):
    text = ""
    for _ in range(r.randrange(1, 16)):
        kind = r.random()
        if kind < 0.35:
            text += r.choice(COMMON)
        elif kind < 0.5:
            text += r.choice(found[r.choice(["Mn", "Mc", "Me"])])
        elif kind < 0.6:
            text += r.choice(" \n\r\u00a0\u3000\u2028\u0085") * r.randrange(1, 4)
        else:
            text += r.choice(found[r.choice(sorted(found))])
    return text


def main():
    r, found = random.Random(35), categories()
    texts = [random_text(r, found) for _ in range(300)]
    out = {name: [regex.findall(e, text) for text in texts] for name, e in EXPRESSIONS.items()}
    json.dump(out, sys.stdout, separators=(",", ":"))
    print()


main()
