#!/usr/bin/env python3
"""Start: from the command to the first request at the server, and peak memory.

    tests/bench/start.py TRACES [TOKENIZER] [COPIES]

COPIES repeats the traces under new ids, to reach a larger corpus. The median of five runs.
"""
import gzip
import json
import pathlib
import statistics
import sys
import tempfile
import time

import common

traces, tokenizer = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "builtin"
copies = int(sys.argv[3]) if len(sys.argv) > 3 else 1
with tempfile.TemporaryDirectory() as folder:
    corpus = pathlib.Path(folder) / "traces"
    corpus.mkdir()
    size = count = 0
    for path in sorted(traces.glob("*.json*")):
        text = (gzip.open if path.suffix == ".gz" else open)(path, "rt").read()
        try:
            trace = json.loads(text)
            assert trace["requests"]
        except (ValueError, TypeError, KeyError, AssertionError):
            continue
        for copy in range(copies):
            trace["id"] = f"{trace['id'].split('~')[0]}~{copy}"
            (corpus / f"{path.name.split('.')[0]}_{copy}.json").write_text(json.dumps(trace))
            count, size = count + 1, size + len(text)
    print(f"{count} traces, {size / 1e6:.1f} MB, tokenizer {tokenizer}")
    waits, memory = [], []
    for run in range(5):
        with common.Server("--ttft-ms", 1, "--itl-ms", 1) as server:
            out = pathlib.Path(folder) / f"out{run}"
            file = common.plan(folder, server.port, 4, 1, {"path": str(corpus), "format": "weka_trace"}, tokenizer=tokenizer)
            started = time.time_ns()
            _, _, peak = common.client(file, out, core=None)
            waits.append((min(line["arrival"] for line in server.lines()) - started) / 1e9)
            memory.append(peak / 1e6)
    print(f"start to first request {statistics.median(waits):.2f} s, peak memory {statistics.median(memory):.0f} MB")
    print(common.load())
