"""Trains the built-in tokenizer: byte-level BPE, GPT-2's split rule, 8,192 entries, no special tokens.

The text is ours alone: the templates of templates/*.txt filled with words.txt. Deterministic: one fixed seed, one
fixed library version, gzip without a time stamp.

    pip install tokenizers==0.23.1
    python3 train_builtin.py            # writes builtin-tokenizer.json.gz beside itself
"""

import gzip
import json
import random
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
WORDS = (HERE / "words.txt").read_text().split()
RNG = random.Random(20250601)


def fill(template):
    """Fills a template as src/text/template_text.rs does: $a-$d and $A-$D keep their word, the rest is fresh."""
    kept = {letter: RNG.choice(WORDS) for letter in "abcd"}
    fresh = {
        "w": lambda: RNG.choice(WORDS),
        "W": lambda: RNG.choice(WORDS).capitalize(),
        "u": lambda: RNG.choice(WORDS).upper(),
        "n": lambda: str(RNG.randrange(100)),
        "N": lambda: str(RNG.randrange(100, 100_000)),
        "i": lambda: f"{RNG.randrange(60):02}",
        "f": lambda: f"{RNG.randrange(100)}.{RNG.randrange(100):02}",
        "h": lambda: f"{RNG.randrange(1 << 32):08x}",
    }
    out, pos = [], 0
    while pos < len(template):
        slot = template[pos + 1 : pos + 2] if template[pos] == "$" else ""
        if slot and slot in "abcd":
            out.append(kept[slot])
        elif slot and slot in "ABCD":
            out.append(kept[slot.lower()].capitalize())
        elif slot in fresh:
            out.append(fresh[slot]())
        else:
            out.append(template[pos])
            pos += 1
            continue
        pos += 2
    return "".join(out)


def templates(path):
    head, *blocks = path.read_text().split("%%\n")
    return [line + "\n" for line in head.splitlines()] + blocks


def corpus():
    for path in sorted((HERE / "templates").glob("*.txt")):
        for template in templates(path):
            for _ in range(60):
                yield fill(template)
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
    tokenizer.train_from_iterator(corpus(), trainer)
    data = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")).encode()
    (HERE / "builtin-tokenizer.json.gz").write_bytes(gzip.compress(data, 9, mtime=0))
    single = sum(len(tokenizer.encode(" " + word).ids) == 1 for word in WORDS)
    print(f"{tokenizer.get_vocab_size()} entries, {len(data)} bytes, {single} of {len(WORDS)} words in one token")


main()
