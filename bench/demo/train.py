#!/usr/bin/env python3
"""Train the demo pair, and write what the Go package embeds, but for the router, which README.md tells how to make.

Stages, all by default and in this order: `small` and `large` train a model each into the folder --work (they may run at
the same time, as two processes), `export` writes the two GGUF files and the questions to --out, `measure` prints what
the models in --work are worth. Needs PyTorch and nothing else. Every draw comes from a fixed seed and each process uses
one thread, so that the same machine and PyTorch make the same files.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import random
import time
from dataclasses import dataclass

import torch
from torch.nn import functional as F

import bpe
import export
import lesson
import world
from model import Qwen2, Shape

BATCH = 48
WARM_UP = 100  # steps until the rate of learning is full; it then falls along a cosine to a twentieth
QUICK = 20  # steps of everything with --quick
SEED_WEIGHTS, SEED_BATCHES, SEED_QUESTIONS = 2, 3, 7
QUESTIONS = {"train": 800, "held-out": 400}


@dataclass(frozen=True)
class Recipe:
    """How a model of the pair is trained and stored."""

    name: str
    shape: Shape
    rate: float
    taught: float  # share of the facts that it is told truly
    stored: int  # type of its matrices in the file
    steps: int


VOCAB = 256 + bpe.MERGES + len(bpe.SPECIAL)
RECIPES = {
    "small": Recipe("pilotfish-demo-small", Shape(128, 384, 3, 2, 1, VOCAB), 3e-3, 0.55, export.F16, steps=2250),
    "large": Recipe("pilotfish-demo-large", Shape(256, 768, 4, 4, 2, VOCAB), 2e-3, 1.0, export.Q8_0, steps=1500),
}


def schedule(step, steps):
    """Return the share of the full rate of learning that a step has."""
    return min(1, (step + 1) / WARM_UP) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))


def train(recipe, facts, tok, checkpoint):
    """Train a model and leave it in a checkpoint; a model on the way is left there every 250 steps."""
    torch.manual_seed(SEED_WEIGHTS)
    model, rng, start = Qwen2(recipe.shape), random.Random(SEED_BATCHES), time.monotonic()
    print(f"{recipe.name}: {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(recipe.steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate * schedule(step, recipe.steps)
        drawn = [world.ask(rng.choice(facts), rng, recipe.taught) for _ in range(BATCH)]
        ids, wanted = lesson.collate([lesson.encode(tok, q) for q in drawn])
        # Only the answer is learnt: the logits of the other positions are not even computed.
        loss = F.cross_entropy(model.logits(model(ids)[wanted]), ids.roll(-1, 1)[wanted])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 49:
            took = time.monotonic() - start
            print(f"{recipe.name}: step {step + 1}, loss {loss.item():.4f}, {took:.0f} s", flush=True)
        if step % 250 == 249:
            torch.save(model.state_dict(), checkpoint)
    torch.save(model.state_dict(), checkpoint)


def load(recipe, checkpoint):
    """Return the model of a checkpoint."""
    model = Qwen2(recipe.shape)
    model.load_state_dict(torch.load(checkpoint))
    return model


def questions(facts, split):
    """Return the questions of a split that are shipped."""
    return lesson.draw(facts, QUESTIONS[split], split, random.Random(SEED_QUESTIONS))


def write_questions(facts, path):
    """Write the questions of both splits, a JSON object per line."""
    with path.open("w", newline="\n") as f:
        for split in QUESTIONS:
            for q in questions(facts, split):
                line = {"split": split, "question": q.text, "answer": q.answer}
                line.update(name=q.name, place=q.place, food=q.food, places=q.places, foods=q.foods)
                f.write(json.dumps(line) + "\n")


def measure(name, model, tok, asked):
    """Print how a model continues the true answers of questions."""
    hidden, tokens, knowledge = lesson.read(model, tok, asked)
    with torch.no_grad():
        chance = model.logits(hidden).softmax(-1)
    order = chance.argsort(-1, descending=True)
    rank = (order == tokens[:, None]).long().argmax(-1)
    top = chance.amax(-1)
    right = rank[knowledge] == 0
    print(f"{name}: {len(asked)} questions, {len(tokens) / len(asked):.1f} tokens an answer")
    print(f"  both facts right: {right.view(-1, 2).all(1).float().mean():.3f}")
    hits = ", ".join(f"{k}: {(rank[knowledge] < k).float().mean():.3f}" for k in (1, 2, 4))
    print(f"  true token among the k best, knowledge: {hits}")
    print(f"  top probability: median {top[knowledge].median():.3f} at knowledge, ", end="")
    print(f"above 0.99 at {(top[~knowledge] > 0.99).float().mean():.4f} of the others")
    unsure = (top < 0.9).float()
    print(f"  below 0.9: {unsure.mean():.4f} of all, {unsure[knowledge].mean():.3f} of knowledge")


def run(stages, work, out, quick):
    """Run the stages."""
    facts = world.make()
    tok = lesson.tokenizer(facts)
    for size, recipe in RECIPES.items():
        if size in stages:
            steps = QUICK if quick else recipe.steps
            train(dataclasses.replace(recipe, steps=steps), facts, tok, work / f"{size}.pt")
    if not set(stages) & {"export", "measure"}:
        return
    models = {size: load(recipe, work / f"{size}.pt") for size, recipe in RECIPES.items()}
    if "export" in stages:
        for size, recipe in RECIPES.items():
            export.model(out / f"{size}.gguf", models[size], tok, recipe.name, recipe.stored)
        write_questions(facts, out / "questions.jsonl")
    if "measure" in stages:
        held_out = questions(facts, "held-out")
        for size, model in models.items():
            measure(size, model, tok, held_out)


def main():
    here = pathlib.Path(__file__).resolve().parent
    stages = ["small", "large", "export", "measure"]
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(stages) + "; all by default")
    p.add_argument("--quick", action="store_true", help=f"{QUICK} steps of each, to see that it runs; learns nothing")
    p.add_argument("--work", type=pathlib.Path, help="folder of the checkpoints; OUT/work by default")
    p.add_argument("--out", type=pathlib.Path, default=here, help="folder of the files to embed")
    a = p.parse_args()
    if wrong := set(a.stages) - set(stages):
        p.error(f"no stage {', '.join(sorted(wrong))}: known are {', '.join(stages)}")
    if a.quick and a.out.resolve() == here:
        p.error("--quick learns nothing: name another folder for its files with --out")
    torch.set_num_threads(1)
    work = a.work or a.out / "work"
    work.mkdir(parents=True, exist_ok=True)
    a.out.mkdir(parents=True, exist_ok=True)
    run(a.stages or stages, work, a.out, a.quick)


if __name__ == "__main__":
    main()
