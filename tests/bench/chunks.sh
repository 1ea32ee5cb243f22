#!/usr/bin/env bash
# CPU a chunk and memory an open stream: chunks that arrive one by one (20 ms between tokens), then batched (1 ms).
#   tests/bench/chunks.sh [STREAMS] [PROMPT_BYTES]
# Server on core 0, client on core 1. `SERVER` lines are the simulated server's own CPU.
set -euo pipefail
cd "$(dirname "$0")/../.."
streams=${1:-256} bytes=${2:-1000}
cargo build --quiet --release -p agentx-wire -p agentx-mock --examples
bin=${CARGO_TARGET_DIR:-target}/release/examples
for gap in 20 1; do
    tokens=$((10000 / gap)) # ten seconds
    exec 3< <(exec taskset -c 0 "$bin/serve" 0 1000 "$gap")
    server=$!
    read -r _ port <&3
    echo "== $streams streams, $gap ms between tokens, prompts of $bytes bytes; load $(cut -d' ' -f1 /proc/loadavg)"
    taskset -c 1 "$bin/chunks" "$port" "$streams" "$tokens" "$bytes"
    ticks=$(awk '{print $14 + $15}' "/proc/$server/stat")
    awk -v t="$ticks" -v n=$((streams * tokens)) 'BEGIN { printf "SERVER %.2f us a chunk\n", t * 10000 / n }'
    kill "$server"
done
