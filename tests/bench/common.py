"""What the benchmarks share: the binary, a server of our own, small figures. Standard library only."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
BINARY = pathlib.Path(os.environ.get("AGENTX", TARGET / "agentx"))


def pinned(core):
    """Command prefix that keeps a process on one core, if the machine has it; none for no core."""
    if core is not None and (os.cpu_count() or 1) > core and os.path.exists("/usr/bin/taskset"):
        return ["taskset", "-c", str(core)]
    return []


class Server:
    """A mock server in a process of its own, with a log."""

    def __init__(self, *arguments, core=0, program=None):
        self.log = pathlib.Path(tempfile.mkstemp(suffix=".jsonl")[1])
        command = program or [str(BINARY), "mock-server", "--log", str(self.log)]
        self.process = subprocess.Popen(pinned(core) + command + [str(a) for a in arguments], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def cpu(self):
        """User plus system time, seconds."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.unlink(missing_ok=True)


def plan(folder, port, lanes, seconds, corpus, **more):
    """A plan file against a server on this machine."""
    body = {
        "agentx": 1, "scenario": "inferencex-agentx-mvp@1", "unsafe_override": True,
        "target": {"urls": [f"http://127.0.0.1:{port}"]}, "model": {"names": ["bench"]},
        "tokenizer": {"source": more.pop("tokenizer", "builtin"), "token_counts": "server"}, "corpus": corpus,
        "load": {"concurrency": lanes}, "profiling": {"duration": seconds, "grace": 30}, "sampling": {"seed": 1},
        "ui": {"type": "none"},
    }
    body.update(more)
    path = pathlib.Path(folder) / "plan.yaml"
    path.write_text(json.dumps(body))
    return path


# Short prompts, answers of at most 300 tokens and hardly a pause: a plan with this keeps every lane's stream flowing.
DENSE = {
    "corpus": {
        "synthetic": {"traces": 64, "seed": 3, "turns": 200, "max_context": 8000, "helpers": 0, "pace": 0.0002},
        "max_output_tokens": 300,
    },
    "timing": {"turn_delay_cap": 0.05, "system_idle_cap": 10},
}


def client(plan_file, out, core=1, wait=True):
    """Runs the benchmark; gives CPU seconds, wall seconds and peak memory (bytes) of the client."""
    before = time.monotonic()
    process = subprocess.Popen(pinned(core) + [str(BINARY), "run", str(plan_file), "--out", str(out)], stderr=subprocess.PIPE, text=True)
    if not wait:
        return process
    text = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if not (pathlib.Path(out) / "profile_export.jsonl").exists():
        sys.exit(f"the run left no records:\n{text[-2000:]}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - before, usage.ru_maxrss * 1024


def records(out):
    with open(pathlib.Path(out) / "profile_export.jsonl") as file:
        return [json.loads(line) for line in file]


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def spread(values, unit):
    return " ".join(f"p{int(s * 100)} {quantile(values, s):.2f}" for s in (0.5, 0.9, 0.99)) + f" max {max(values):.2f} {unit}"


def load():
    """How busy the machine was."""
    return "machine load " + re.sub(r" \d+/.*", "", pathlib.Path("/proc/loadavg").read_text().strip())
