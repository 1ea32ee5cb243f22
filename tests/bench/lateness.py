#!/usr/bin/env python3
"""Dispatch lateness, memory and errors at many lanes.

    tests/bench/lateness.py [LANES] [SECONDS] [TOKENIZER] [HELPERS] [FAN_OUT]

HELPERS scales the number of helpers, FAN_OUT is the most that start together: a run asks for open files for twice as many
on each lane.

Memory is sampled every second; "flat" compares the last quarter of the run with the second.
"""
import json
import pathlib
import sys
import tempfile
import time

import common

lanes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
tokenizer = sys.argv[3] if len(sys.argv) > 3 else "builtin"
helpers = float(sys.argv[4]) if len(sys.argv) > 4 else 1
fan_out = int(sys.argv[5]) if len(sys.argv) > 5 else 2
corpus = {"synthetic": {"traces": 60, "seed": 4, "max_context": 200_000, "helpers": helpers, "fan_out": fan_out}}
with tempfile.TemporaryDirectory() as folder, common.Server("--ttft-ms", 200, "--itl-ms", 20, "--prefill-tps", 1e7) as server:
    out = pathlib.Path(folder) / "out"
    file = common.plan(folder, server.port, lanes, seconds, corpus, tokenizer=tokenizer)
    process = common.client(file, out, wait=False)
    memory = []
    while process.poll() is None:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        memory += [int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")]
        time.sleep(1)
    text = process.stderr.read()
    if not (out / "profile_export.jsonl").exists():
        sys.exit(f"the run left no records:\n{text[-2000:]}")
    rows = common.records(out)
    client = json.loads((out / "profile_export_aiperf.json").read_text())["agentx"]["client"]
late = [row["agentx"]["lateness_ns"] / 1e6 for row in rows if row["metadata"]["benchmark_phase"] == "profiling"]
errors = [row for row in rows if row.get("error")]
quarter = max(1, len(memory) // 4)
print(f"{lanes} lanes, {seconds} s: {len(rows)} requests, {len(errors)} errors, exit {process.returncode}, {common.load()}")
print("dispatch lateness:", common.spread(late, "ms"))
mean = lambda part: sum(part) / len(part)
print(f"memory: {mean(memory[quarter:2 * quarter]):.0f} MB in the second quarter, {mean(memory[-quarter:]):.0f} MB in the last, peak {max(memory):.0f} MB")
for thread in client["threads"]:
    lag = " ".join(f"{name} {thread[f'lag_{name}_ms']:.2f}" for name in ("p50", "p99", "max"))
    print(f"thread {thread['name']}: {thread['cpu_share'] * 100:.0f} % of a core, loop lag {lag} ms")
print(f"connections open at once: {client['connections_peak']}, saturated: {client.get('saturated_reason', 'no')}")
