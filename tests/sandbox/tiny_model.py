# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a tiny Llama whose greedy answers read like sentences and depend on the whole prompt.

    engine/bin/python tiny_model.py FOLDER [--stamp NAME] [--seed NUMBER]

Nothing is trained. The hidden state has two parts that never mix:

* a few "class" dimensions carry the grammatical class of the last token, straight from its embedding to lm_head,
  which prefers the words of the class that follows (the hungry robot carries this wooden lamp and ...);
* the "content" dimensions are random, and what attention brings there decides which word of that class it is.
  A token's own embedding is kept weak there, so the words depend on the keys and values of what came before:
  wrong or missing KV gives another answer, which is what a test of KV transfer has to see.

The numbers come from Python's own generator, so every machine writes the same bytes. Another seed makes a model with
the same vocabulary and other keys and values: the negative control of a transfer.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SEED = 20260101
MAX_POSITIONS = 4096
HIDDEN, LAYERS, HEADS, KV_HEADS, INTERMEDIATE = 128, 2, 4, 2, 256
HEAD = HIDDEN // HEADS
BOS, EOS = "<s>", "</s>"

# One sentence, class by class; after the last class comes the first again. No word stands in two classes.
SENTENCE: dict[str, str] = {
    "determiner": "the a every another one some",
    "adjective": "quiet hungry clever tired brave gentle patient curious young old famous lonely happy careful sleepy "
    "stubborn cheerful honest nervous polite",
    "subject": "engineer robot fox sailor teacher farmer doctor painter pilot baker gardener singer writer captain "
    "student merchant dog owl bear rabbit turtle whale eagle spider wolf king queen prince stranger neighbour",
    "verb": "carries finds paints repairs follows watches borrows sells hides builds opens cleans remembers draws "
    "measures lifts guards studies moves admires polishes shares catches buys forgets drops counts wraps polls trades",
    "object_determiner": "this that its his her their our your",
    "object_adjective": "wooden silver heavy broken shiny ancient golden tiny giant purple yellow dusty secret frozen "
    "simple round hollow striped empty warm",
    "object": "lamp harbour bridge letter window mountain garden clock bottle lantern basket mirror ladder carpet "
    "engine kettle candle pocket river castle violin blanket hammer market island compass ticket tunnel forest wheel",
    "conjunction": ". and while because until before after unless although when",
}
CLASSES = list(SENTENCE)

# Strengths of the parts, found by trying; README.md says what came out.
CLASS_EMBEDDING = 1.0
CLASS_PREFERENCE = 40.0
CONTENT_EMBEDDING = 1.0
QUERY_KEY_GAIN = 2.0
VALUE_GAIN = 2.0
MLP_GAIN = 1.5
LM_HEAD_GAIN = 1.0


def word_token(word: str) -> str:
    """As the byte-level tokenizer spells a word that follows a space."""
    return word if word == "." else "\u0120" + word


def vocabulary() -> tuple[dict[str, int], list[tuple[str, str]], dict[str, str]]:
    """Tokens, merges, and the class of each word.

    A merge for each prefix of each word, so a known word always becomes one token and anything else falls back
    to the longest known prefix and single bytes.
    """
    tokens = [BOS, EOS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges: list[tuple[str, str]] = []
    class_of: dict[str, str] = {}
    known = set(tokens)
    for name, words in SENTENCE.items():
        for word in words.split():
            spelled = word_token(word)
            if spelled in class_of:
                raise ValueError(f"{word} stands in two classes: {class_of[spelled]} and {name}")
            class_of[spelled] = name
            for end in range(2, len(spelled) + 1):
                if spelled[:end] not in known:
                    known.add(spelled[:end])
                    tokens.append(spelled[:end])
                    merges.append((spelled[: end - 1], spelled[end - 1]))
    return {token: index for index, token in enumerate(tokens)}, merges, class_of


def make_tokenizer(ids: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([BOS, EOS])
    return tokenizer


def make_weights(ids: dict[str, int], class_of: dict[str, str], seed: int = SEED) -> dict[str, numpy.ndarray]:
    numbers = random.Random(seed)
    classes = len(CLASSES)

    def noise(rows: int, columns: int, gain: float) -> numpy.ndarray:
        """Uniform with the standard deviation gain / sqrt(columns)."""
        width = gain * (3.0 / columns) ** 0.5
        flat = [numbers.uniform(-width, width) for _cell in range(rows * columns)]
        return numpy.array(flat, dtype=numpy.float32).reshape(rows, columns)

    embedding = noise(len(ids), HIDDEN, CONTENT_EMBEDDING * HIDDEN**0.5)
    lm_head = noise(len(ids), HIDDEN, LM_HEAD_GAIN)
    embedding[:, :classes] = 0.0
    lm_head[:, :classes] = 0.0
    words = {ids[token]: CLASSES.index(name) for token, name in class_of.items()}
    for row in range(len(ids)):
        if row in words:
            embedding[row, words[row]] = CLASS_EMBEDDING
            lm_head[row, (words[row] - 1) % classes] = CLASS_PREFERENCE
        else:
            # As after a full sentence: any prompt is answered by the beginning of one. Never generated itself,
            # EOS included: an answer is as long as was asked for.
            embedding[row, classes - 1] = CLASS_EMBEDDING
            lm_head[row, :] = 0.0

    def content_only(weight: numpy.ndarray) -> numpy.ndarray:
        weight[:classes, :] = 0.0
        return weight

    weights = {
        "model.embed_tokens.weight": embedding,
        "lm_head.weight": lm_head,
        "model.norm.weight": numpy.ones(HIDDEN, dtype=numpy.float32),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        weights |= {
            prefix + "self_attn.q_proj.weight": noise(HEADS * HEAD, HIDDEN, QUERY_KEY_GAIN),
            prefix + "self_attn.k_proj.weight": noise(KV_HEADS * HEAD, HIDDEN, QUERY_KEY_GAIN),
            prefix + "self_attn.v_proj.weight": noise(KV_HEADS * HEAD, HIDDEN, VALUE_GAIN),
            prefix + "self_attn.o_proj.weight": content_only(noise(HIDDEN, HEADS * HEAD, VALUE_GAIN)),
            prefix + "mlp.gate_proj.weight": noise(INTERMEDIATE, HIDDEN, MLP_GAIN),
            prefix + "mlp.up_proj.weight": noise(INTERMEDIATE, HIDDEN, MLP_GAIN),
            prefix + "mlp.down_proj.weight": content_only(noise(HIDDEN, INTERMEDIATE, MLP_GAIN)),
            prefix + "input_layernorm.weight": numpy.ones(HIDDEN, dtype=numpy.float32),
            prefix + "post_attention_layernorm.weight": numpy.ones(HIDDEN, dtype=numpy.float32),
        }
    return weights


def files(ids: dict[str, int]) -> dict[str, dict[str, object]]:
    special: dict[str, object] = {"bos_token_id": ids[BOS], "eos_token_id": ids[EOS]}
    return {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": HIDDEN,
            "intermediate_size": INTERMEDIATE,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD,
            "vocab_size": len(ids),
            "max_position_embeddings": MAX_POSITIONS,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            "attention_bias": False,
            "torch_dtype": "float32",
            **special,
        },
        "generation_config.json": special,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": BOS,
            "eos_token": EOS,
            "model_max_length": MAX_POSITIONS,
            "clean_up_tokenization_spaces": False,
            "chat_template": "{% for message in messages %}"
            "{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}",
        },
    }


def write(folder: Path, stamp: str, seed: int) -> None:
    """Each file appears whole and the stamp last, so half a model is never taken for a whole one."""
    ids, merges, class_of = vocabulary()
    folder.mkdir(parents=True, exist_ok=True)

    def replace(name: str, fill: Callable[[Path], object]) -> None:
        beside = folder / f".{name}.new"
        fill(beside)
        beside.chmod(0o644)
        beside.replace(folder / name)

    for old in folder.glob(".made-by-*"):
        old.unlink()
    weights = make_weights(ids, class_of, seed)
    replace("model.safetensors", lambda path: save_file(weights, path, metadata={"format": "pt"}))
    replace("tokenizer.json", lambda path: make_tokenizer(ids, merges).save(str(path)))
    texts = {name: json.dumps(content, indent=2) + "\n" for name, content in files(ids).items()}
    if stamp:
        texts[stamp] = ""
    for name, text in texts.items():
        replace(name, partial(Path.write_text, data=text))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a tiny model for tests.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stamp", default="", help="name of an empty file that says the model is whole")
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    write(arguments.folder, arguments.stamp, arguments.seed)
