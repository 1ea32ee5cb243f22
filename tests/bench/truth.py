#!/usr/bin/env python3
"""Truth: what the client reports of each request against what the server's own log says of it.

    tests/bench/truth.py [LANES] [SECONDS] [ITL_MS]

Requests of the first four seconds are left out: all lanes begin at once in this plan, as no real run does.
"""
import pathlib
import sys
import tempfile

import common

SETTLE = 4
lanes, seconds, gap = (int(a) for a in (sys.argv[1:] + ["240", "30", "20"][len(sys.argv) - 1:]))
with tempfile.TemporaryDirectory() as folder, common.Server("--ttft-ms", 20, "--itl-ms", gap) as server:
    out = pathlib.Path(folder) / "out"
    cpu, wall, _ = common.client(common.plan(folder, server.port, lanes, seconds, **common.DENSE), out)
    served = {line["x_request_id"]: line for line in server.lines() if line["status"] == 200 and not line["cut"]}
    ttft, itl, chunks = [], [], 0
    profiling = [record for record in common.records(out) if record["metadata"]["benchmark_phase"] == "profiling"]
    begin = min(record["metadata"]["request_start_ns"] for record in profiling) + SETTLE * 10**9
    end = begin + (seconds - SETTLE) * 10**9
    for record in profiling:
        metadata, metrics = record["metadata"], record["metrics"]
        if not begin <= metadata["request_start_ns"] < end:
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
print(f"{len(ttft)} requests, {chunks / (seconds - SETTLE):.0f} chunks/s, client CPU {cpu / wall * 100:.0f} % of a core, {common.load()}")
print("time to first token, client minus server:", common.spread(ttft, "ms"))
print("time between tokens, client against server:", common.spread(itl, "% off"))
