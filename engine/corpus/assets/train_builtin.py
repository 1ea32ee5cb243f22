"""Trains the built-in tokenizer: byte-level BPE, GPT-2's split rule, 8,192 entries, no special tokens.

The text is ours alone: made-up coding text, one file, as `text_figures` prints it, with words.txt behind it. Training is
deterministic: one fixed seed, one fixed library version, gzip without a time stamp. Another text gives another
tokenizer, and with it other prompts: the shipped one is not remade when templates or words change.

    pip install tokenizers==0.23.1
    python3 train_builtin.py TEXT       # writes builtin-tokenizer.json.gz beside itself
"""

import gzip
import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
WORDS = (HERE / "words.txt").read_text().split()
RNG = random.Random(20250601)


def corpus(path):
    yield from path.read_text().splitlines(keepends=True)
    for _ in range(12):
        shuffled = WORDS[:]
        RNG.shuffle(shuffled)
        yield "the " + " ".join(shuffled) + "\n"


def main():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=8192,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(corpus(Path(sys.argv[1])), trainer)
    data = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")).encode()
    (HERE / "builtin-tokenizer.json.gz").write_bytes(gzip.compress(data, 9, mtime=0))
    single = sum(len(tokenizer.encode(" " + word).ids) == 1 for word in WORDS)
    print(f"{tokenizer.get_vocab_size()} entries, {len(data)} bytes, {single} of {len(WORDS)} words in one token")


main()
