#!/usr/bin/env python3
"""Truth: what the client reports of each request against what the server's own log says of it.

    tests/bench/truth.py [LANES] [SECONDS] [ITL_MS]
"""
import pathlib
import sys
import tempfile

import common

lanes, seconds, gap = (int(a) for a in (sys.argv[1:] + ["240", "30", "20"][len(sys.argv) - 1:]))
corpus = {"synthetic": {"traces": 40, "seed": 3, "turns": 200, "max_context": 8000, "helpers": 0, "pace": 0.01}}
with tempfile.TemporaryDirectory() as folder, common.Server("--ttft-ms", 20, "--itl-ms", gap) as server:
    out = pathlib.Path(folder) / "out"
    cpu, wall, _ = common.client(common.plan(folder, server.port, lanes, seconds, corpus), out)
    served = {line["x_request_id"]: line for line in server.lines() if line["status"] == 200 and not line["cut"]}
    ttft, itl, late, chunks = [], [], [], 0
    for record in common.records(out):
        metadata, metrics = record["metadata"], record["metrics"]
        if metadata["benchmark_phase"] != "profiling":
            continue
        line = served.get(metadata.get("x_request_id"))
        if line is None or "time_to_first_token" not in metrics:
            continue
        value = lambda name: metrics[name]["value"] if isinstance(metrics[name], dict) else metrics[name]
        chunks += line["output"]
        ttft.append(value("time_to_first_token") - (line["first_byte"] - line["arrival"]) / 1e6)
        if line["output"] > 20 and "inter_token_latency" in metrics:
            own = (line["end"] - line["first_byte"]) / 1e6 / (line["output"] - 1)
            itl.append(abs(value("inter_token_latency") / own - 1) * 100)
print(f"{len(ttft)} requests, {chunks / wall:.0f} chunks/s, client CPU {cpu / wall * 100:.0f} % of a core, {common.load()}")
print("time to first token, client minus server:", common.spread(ttft, "ms"))
print("time between tokens, client against server:", common.spread(itl, "% off"))
