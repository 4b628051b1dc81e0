"""The router: from the small model's final hidden state to the confidence that its greedy token may stand."""

import random

import torch
from torch import nn
from torch.nn import functional as F

import lesson

HIDDEN = 64
QUESTIONS = 8000  # of the training split, ten for each name: with fewer it learns single ones by heart
BATCH = 1024
SEED_WEIGHTS, SEED_QUESTIONS, SEED_BATCHES = 4, 5, 6


def new(width):
    """Return an untrained router: its output is the logit of the confidence."""
    torch.manual_seed(SEED_WEIGHTS)
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))


def lessons(model, tok, questions):
    """Return hidden states, whether the greedy token of each is the true one, and whether that is knowledge."""
    hidden, tokens, knowledge = lesson.read(model, tok, questions)
    with torch.no_grad():
        right = model.logits(hidden).argmax(-1) == tokens
    return hidden, right.float(), knowledge


def train(model, tok, facts, steps):
    """Return a router trained on the states of model."""
    hidden, right, _ = lessons(model, tok, lesson.draw(facts, QUESTIONS, "train", random.Random(SEED_QUESTIONS)))
    router = new(model.shape.width)
    torch.manual_seed(SEED_BATCHES)
    optimizer = torch.optim.AdamW(router.parameters(), lr=2e-3, weight_decay=0.05)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        some = torch.randint(len(right), (BATCH,))
        loss = F.binary_cross_entropy_with_logits(router(hidden[some])[:, 0], right[some])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()
    return router


def auc(score, right):
    """Return the chance that a right token has a higher score than a wrong one; equal scores count half."""
    _, rank, count = torch.unique(score, return_inverse=True, return_counts=True)
    ends = count.cumsum(0).double()
    ranks = (ends - (count - 1) / 2)[rank]  # the mean rank of equal scores, from 1
    good = right.sum().double()
    bad = len(right) - good
    return ((ranks[right > 0].sum() - good * (good + 1) / 2) / (good * bad)).item()


def calibration_error(confidence, right, bins=10):
    """Return the expected calibration error: |mean confidence - share right| in bins of equal width, by their size."""
    which = (confidence * bins).long().clamp(max=bins - 1)
    gaps = [(confidence[which == b].sum() - right[which == b].sum()).abs() for b in range(bins)]
    return (sum(gaps) / len(right)).item()
