#!/usr/bin/env python3
"""CPU time of the whole client for each chunk that arrives, with everything recorded: singly and batched.

    tests/bench/client.py [LANES] [SECONDS] [RUNS]

Client and server have a core each. CPU time is the process' own over the profiling phase (`agentx.client` of the summary),
chunks are those of the records of that phase. At 1 ms between tokens the server is late, and chunks share reads.
"""
import json
import pathlib
import statistics
import sys
import tempfile

import common

lanes, seconds, runs = (int(a) for a in (sys.argv[1:] + ["256", "20", "5"][len(sys.argv) - 1:]))
for gap in (20, 1):
    found = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder, common.Server("--ttft-ms", 20, "--itl-ms", gap) as server:
            out = pathlib.Path(folder) / "out"
            common.client(common.plan(folder, server.port, lanes, seconds, **common.DENSE), out)
            client = json.loads((out / "profile_export_aiperf.json").read_text())["agentx"]["client"]
            chunks = reads = requests = 0
            for record in common.records(out):
                gaps = record["metrics"].get("inter_chunk_latency", {"value": []})["value"]
                if record["metadata"]["benchmark_phase"] == "profiling":
                    chunks, requests = chunks + len(gaps) + 1, requests + 1
                    reads += record["metrics"].get("http_req_chunks_received", {"value": 0})["value"]
        span = client["threads"][0]["seconds"]
        lag = max(thread["lag_p99_ms"] for thread in client["threads"])
        found.append((client["cpu_share"] * span * 1e6 / chunks, chunks / span, reads / chunks, requests / span, lag))
    cpu, rate, reads, requests, lag = (statistics.median(column) for column in zip(*found))
    print(
        f"{gap} ms between tokens, {lanes} lanes: {cpu:.2f} us of client CPU a chunk, {rate:.0f} chunks/s, "
        f"{reads:.2f} reads a chunk, {requests:.0f} requests/s, loop lag p99 {lag:.2f} ms"
    )
print(common.load())
