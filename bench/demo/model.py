"""Qwen2 in PyTorch: RMSNorm, rotary halves, grouped-query attention with biases, SwiGLU, tied head."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

EPSILON = 1e-6
ROPE_BASE = 10000.0


@dataclass(frozen=True)
class Shape:
    """The sizes of a model."""

    width: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int

    @property
    def head(self):
        """Elements of a head."""
        return self.width // self.heads


class RMSNorm(nn.Module):
    """x / rms(x) * weight"""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * self.weight


def turns(length, head):
    """Return the cosine and sine of pos * base^(-2i/head), both [length, head/2]."""
    rate = ROPE_BASE ** (-torch.arange(0, head, 2).float() / head)
    angle = torch.arange(length).float()[:, None] * rate
    return angle.cos(), angle.sin()


def rotate(x, turn):
    """Turn the pairs (i, i + head/2) of x [batch, heads, length, head]."""
    cos, sin = turn
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Block(nn.Module):
    """One layer. The names of its parts are those of the tensors in a GGUF file."""

    def __init__(self, s):
        super().__init__()
        self.shape = s
        self.attn_norm, self.ffn_norm = RMSNorm(s.width), RMSNorm(s.width)
        self.attn_q = nn.Linear(s.width, s.heads * s.head)
        self.attn_k = nn.Linear(s.width, s.kv_heads * s.head)
        self.attn_v = nn.Linear(s.width, s.kv_heads * s.head)
        self.attn_output = nn.Linear(s.heads * s.head, s.width, bias=False)
        self.ffn_gate = nn.Linear(s.width, s.hidden, bias=False)
        self.ffn_up = nn.Linear(s.width, s.hidden, bias=False)
        self.ffn_down = nn.Linear(s.hidden, s.width, bias=False)

    def attend(self, x, turn, mask):
        s, (batch, length, _) = self.shape, x.shape
        split = lambda y, heads: y.view(batch, length, heads, s.head).transpose(1, 2)
        q = rotate(split(self.attn_q(x), s.heads), turn)
        k = rotate(split(self.attn_k(x), s.kv_heads), turn).repeat_interleave(s.heads // s.kv_heads, 1)
        v = split(self.attn_v(x), s.kv_heads).repeat_interleave(s.heads // s.kv_heads, 1)
        a = (q @ k.transpose(-1, -2) / math.sqrt(s.head) + mask).softmax(-1) @ v
        return self.attn_output(a.transpose(1, 2).reshape(batch, length, s.heads * s.head))

    def forward(self, x, turn, mask):
        x = x + self.attend(self.attn_norm(x), turn, mask)
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Qwen2(nn.Module):
    """The model: ids [batch, length] to final hidden states (after the last norm), and those to logits."""

    def __init__(self, s):
        super().__init__()
        self.shape = s
        self.token_embd = nn.Embedding(s.vocab, s.width)
        self.blk = nn.ModuleList(Block(s) for _ in range(s.layers))
        self.output_norm = RMSNorm(s.width)
        for name, p in self.named_parameters():
            if name == "token_embd.weight":
                nn.init.normal_(p, 0, 0.02)
            elif p.dim() > 1:
                nn.init.normal_(p, 0, 0.7 / math.sqrt(p.shape[1]))

    def forward(self, ids):
        """Return the final hidden states [batch, length, width]."""
        length = ids.shape[1]
        turn = turns(length, self.shape.head)
        mask = torch.full((length, length), -math.inf).triu(1)
        x = self.token_embd(ids)
        for b in self.blk:
            x = b(x, turn, mask)
        return self.output_norm(x)

    def logits(self, hidden):
        """Return the logits of final hidden states [..., width]."""
        return hidden @ self.token_embd.weight.T
