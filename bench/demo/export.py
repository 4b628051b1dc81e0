"""GGUF version 3 out of PyTorch: the two models with their tokenizer."""

import struct

import torch

import bpe
from model import EPSILON, ROPE_BASE

ALIGNMENT = 32
CONTEXT = 512

# Types of metadata values, and of tensors, by their numbers in the file.
U32, I32, F32_VALUE, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
F32, F16, Q8_0 = 0, 1, 8

TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
NORMAL, CONTROL = 1, 3  # types of tokens


def string(s):
    """Encode a string with its length."""
    return struct.pack("<Q", len(s.encode())) + s.encode()


def scalar(kind, v):
    """Encode a value of a type."""
    return string(v) if kind == STRING else struct.pack({U32: "<I", I32: "<i", F32_VALUE: "<f", BOOL: "<?"}[kind], v)


def pair(key, kind, v):
    """Encode a metadata pair; a list becomes an array."""
    if isinstance(v, list):
        body = b"".join(scalar(kind, e) for e in v)
        return string(key) + struct.pack("<IIQ", ARRAY, kind, len(v)) + body
    return string(key) + struct.pack("<I", kind) + scalar(kind, v)


def raw(t):
    """Return the bytes of a tensor."""
    return bytes(t.contiguous().view(torch.uint8).flatten().tolist())


def q8_0(t):
    """Encode blocks of 32: a float16 scale, the largest magnitude over 127, and 32 signed bytes."""
    blocks = t.reshape(-1, 32)
    scale = blocks.abs().amax(1, keepdim=True) / 127
    whole = torch.where(scale > 0, blocks / scale, torch.zeros(())).round().to(torch.int8)
    return raw(torch.cat([scale.half().view(torch.uint8), whole.view(torch.uint8)], 1))


ENCODE = {F32: raw, F16: lambda t: raw(t.half()), Q8_0: q8_0}


def write(path, pairs, tensors):
    """Write a file of metadata [(key, type, value)] and tensors [(name, type, tensor)]; a tensor's rows come first."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs)) + b"".join(pair(*p) for p in pairs)
    data = b""
    for name, kind, t in tensors:
        dims = list(t.shape)[::-1]
        head += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += pad(ENCODE[kind](t.detach()))
    path.write_bytes(pad(head) + data)


def pad(b):
    """Return b with zeros up to the next multiple of the alignment."""
    return b + bytes(-len(b) % ALIGNMENT)


def vocabulary(tok):
    """Return the metadata of a tokenizer."""
    types = [CONTROL if t in bpe.SPECIAL else NORMAL for t in tok.vocab]
    return [
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "qwen2"),
        ("tokenizer.ggml.tokens", STRING, tok.vocab),
        ("tokenizer.ggml.token_type", I32, types),
        ("tokenizer.ggml.merges", STRING, [" ".join(m) for m in tok.merges]),
        ("tokenizer.ggml.eos_token_id", U32, tok.id[bpe.IM_END]),
        ("tokenizer.ggml.bos_token_id", U32, tok.id[bpe.END_OF_TEXT]),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, TEMPLATE),
    ]


def model(path, m, tok, name, matrices):
    """Write a model; its matrices have the given type, its vectors are float32."""
    s = m.shape
    pairs = [
        ("general.architecture", STRING, "qwen2"),
        ("general.name", STRING, name),
        ("qwen2.block_count", U32, s.layers),
        ("qwen2.context_length", U32, CONTEXT),
        ("qwen2.embedding_length", U32, s.width),
        ("qwen2.feed_forward_length", U32, s.hidden),
        ("qwen2.attention.head_count", U32, s.heads),
        ("qwen2.attention.head_count_kv", U32, s.kv_heads),
        ("qwen2.rope.freq_base", F32_VALUE, ROPE_BASE),
        ("qwen2.attention.layer_norm_rms_epsilon", F32_VALUE, EPSILON),
    ]
    tensors = [(n, matrices if t.dim() > 1 else F32, t) for n, t in m.state_dict().items()]
    write(path, pairs + vocabulary(tok), tensors)
