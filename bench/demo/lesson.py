"""From a question to what a model is shown: ids, and which of them it is to learn."""

import random

import torch

import bpe
import world

SEED_TOKENIZER = 1


def prompt(question):
    """Return the text before the answer: what the chat template makes of a question."""
    return f"{bpe.IM_START}user\n{question.text}{bpe.IM_END}\n{bpe.IM_START}assistant\n"


def tokenizer(facts):
    """Return the tokenizer, learnt from 4,000 questions with their answers."""
    rng = random.Random(SEED_TOKENIZER)
    drawn = [world.ask(rng.choice(facts), rng) for _ in range(4000)]
    tok = bpe.Tokenizer(bpe.learn(prompt(q) + q.answer + bpe.IM_END for q in drawn))
    for word in world.PLACES + world.FOODS:
        if len(tok.encode(" " + word)) != 1:
            raise ValueError(f"{word} is not one token: a fact must be")
    return tok


def encode(tok, question):
    """Return the ids of a question and its answer, and the number of ids before the answer."""
    before = tok.encode(prompt(question))
    return before + tok.encode(question.answer) + [tok.id[bpe.IM_END]], len(before)


def collate(items):
    """Return ids [n, length], padded, and a mask of the positions whose next token is part of an answer."""
    length = max(len(ids) for ids, _ in items)
    ids, wanted = torch.zeros(len(items), length, dtype=torch.long), torch.zeros(len(items), length, dtype=torch.bool)
    for row, (some, before) in enumerate(items):
        ids[row, : len(some)] = torch.tensor(some)
        wanted[row, before - 1 : len(some) - 1] = True
    return ids, wanted


def draw(facts, count, split, rng):
    """Return questions of a split with true answers, no two alike."""
    drawn = {}
    while len(drawn) < count:
        q = world.ask(rng.choice(facts), rng, split=split)
        drawn[q.text] = q
    return list(drawn.values())


@torch.no_grad()
def read(model, tok, questions):
    """Run a model over questions and their true answers.

    Return, one line for each token of the answers: the final hidden state that it follows from, the token, and whether
    it is knowledge, that is the place or the food.
    """
    hidden, tokens = [], []
    for i in range(0, len(questions), 50):
        ids, wanted = collate([encode(tok, q) for q in questions[i : i + 50]])
        hidden.append(model(ids)[wanted])
        tokens.append(ids.roll(-1, 1)[wanted])
    tokens = torch.cat(tokens)
    facts = torch.zeros(len(tok.vocab), dtype=torch.bool)
    facts[[tok.encode(" " + w)[0] for w in world.PLACES + world.FOODS]] = True
    return torch.cat(hidden), tokens, facts[tokens]
