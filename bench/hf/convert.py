"""Converts a Qwen2 or Qwen3 model in a GGUF file to the folder format of Hugging Face's libraries, for engines that do
not read GGUF. The same file gives the same bytes.

    pip install gguf
    python3 bench/hf/convert.py bench/demo/large.gguf FOLDER

    config.json             shape, names of special ids
    model.safetensors       the weights, dequantised to float32
    tokenizer.json          byte-level BPE: vocabulary, merges, Qwen2's expression for splitting
    tokenizer_config.json   special tokens, chat template
"""

import json
import os
import struct
import sys

import gguf
from gguf.quants import dequantize

NORMAL, CONTROL, USER, UNUSED = 1, 3, 4, 5  # types of tokens

# Merges apply within each of its matches.
SPLITTING = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+")

# Both formats pair the halves of a head for the rotation, so the rows of q and k keep their order.
NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def name_of(tensor):
    """Returns the name of a tensor in transformers."""
    *block, part, kind = tensor.split(".")
    if part not in NAMES or kind not in ("weight", "bias") or block[:1] not in ([], ["blk"]):
        sys.exit(f"tensor {tensor!r} is not part of a Qwen model, and its effect would be lost")
    return ".".join((["model", "layers", block[1]] if block else []) + [NAMES[part], kind])


def config_of(meta, tensors, vocabulary):
    """Makes config.json: names and meanings are those of Qwen2Config and Qwen3Config in transformers."""
    arch = meta["general.architecture"]
    if arch not in ("qwen2", "qwen3"):
        sys.exit(f"architecture {arch!r} is not supported: qwen2 or qwen3")
    of = {key.removeprefix(arch + "."): v for key, v in meta.items()}
    heads = of["attention.head_count"]
    return {
        "architectures": [arch.title() + "ForCausalLM"], "model_type": arch,
        "dtype": "float32", "torch_dtype": "float32",  # the name of dtype before transformers 5
        "vocab_size": int(tensors["token_embd.weight"].shape[1]), "hidden_size": of["embedding_length"],
        "intermediate_size": of["feed_forward_length"], "num_hidden_layers": of["block_count"],
        "num_attention_heads": heads, "num_key_value_heads": of["attention.head_count_kv"],
        "head_dim": of.get("attention.key_length", of["embedding_length"] // heads),
        "max_position_embeddings": of["context_length"], "hidden_act": "silu",
        "rms_norm_eps": float(f"{of['attention.layer_norm_rms_epsilon']:.7g}"), "rope_theta": of["rope.freq_base"],
        "use_sliding_window": False, "tie_word_embeddings": "output.weight" not in tensors,
        "bos_token_id": vocabulary.get("bos_token_id"), "eos_token_id": vocabulary.get("eos_token_id"),
    }


def added(vocabulary):
    """Returns the tokens that are recognised in a text before it is split, by id."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {i: {"content": token, "special": kind == CONTROL} | flags
            for i, (token, kind) in enumerate(zip(vocabulary["tokens"], vocabulary["token_type"]))
            if kind in (CONTROL, USER)}


def tokenizer_of(vocabulary):
    """Makes tokenizer.json, in the format of the library tokenizers. Text is normalised to NFC, as in the file of
    Qwen2; engines that read GGUF do not do that."""
    words = {}
    for i, (token, kind) in enumerate(zip(vocabulary["tokens"], vocabulary["token_type"])):
        if kind not in (NORMAL, CONTROL, USER, UNUSED):
            sys.exit(f"token {i}: type {kind} is not supported")
        if kind == NORMAL and words.setdefault(token, i) != i:
            sys.exit(f"token {i}: {token!r} is token {words[token]} too")
    letters = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": SPLITTING}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i} | token for i, token in added(vocabulary).items()],
        "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, letters]},
        "post_processor": letters, "decoder": letters,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": words, "merges": [pair.split(" ", 1) for pair in vocabulary["merges"]],
        },
    }


def tokenizer_config_of(vocabulary, context, template):
    """Makes tokenizer_config.json."""
    of = {"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": added(vocabulary),
          "add_prefix_space": False, "clean_up_tokenization_spaces": False, "model_max_length": context,
          "bos_token": None, "unk_token": None}
    if "eos_token_id" in vocabulary:
        of["eos_token"] = of["pad_token"] = vocabulary["tokens"][vocabulary["eos_token_id"]]
    return of | ({"chat_template": template} if template else {})


def write_weights(path, tensors):
    """Writes a safetensors file, a tensor at a time: length of the header, header, data without gaps."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for t in tensors:
        begin, end = end, end + 4 * int(t.n_elements)
        header[name_of(t.name)] = {"dtype": "F32", "shape": [int(n) for n in reversed(t.shape)],
                                   "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for t in tensors:
            out.write(dequantize(t.data, t.tensor_type).astype("<f4").tobytes())


def main():
    if len(sys.argv) != 3:
        sys.exit("give the GGUF file and the folder to write, and nothing else")
    model, folder = sys.argv[1:]
    reader = gguf.GGUFReader(model)
    meta = {name: field.contents() for name, field in reader.fields.items()}
    vocabulary = {name.removeprefix("tokenizer.ggml."): v for name, v in meta.items()}
    if (vocabulary.get("model"), vocabulary.get("pre"), vocabulary.get("add_bos_token", False)) != (
            "gpt2", "qwen2", False):
        sys.exit("the tokenizer is not Qwen2's: only tokenizer.ggml.model gpt2 with pre qwen2 and no BOS is supported")
    config = config_of(meta, {t.name: t for t in reader.tensors}, vocabulary)
    template = meta.get("tokenizer.chat_template")
    files = {"config.json": config, "tokenizer.json": tokenizer_of(vocabulary),
             "tokenizer_config.json": tokenizer_config_of(vocabulary, config["max_position_embeddings"], template)}
    os.makedirs(folder, exist_ok=True)
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            json.dump(content, out, ensure_ascii=False, indent=1)
    write_weights(os.path.join(folder, "model.safetensors"), reader.tensors)


if __name__ == "__main__":
    main()
