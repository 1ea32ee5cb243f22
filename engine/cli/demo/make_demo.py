#!/usr/bin/env python3
"""Writes the demo corpus: six short hand-made coding sessions in the trace format.

Each shows something of its own: growth, tool pauses, awaited and background subagents, an untagged sidecar, a fan-out of
workers, a context that is compacted, and both shapes of published corpora (whole blocks; partial tails behind a declared
prefix). Times are short, so that a run of some 45 s plays all of them. Standard library only; the output never changes.
"""
import json
import pathlib

BLOCK = 64
MODEL, SMALL = "demo-large", "demo-small"


class Session:
    def __init__(self, name, prefix=0, partial=False):
        self.name, self.partial, self.next_id = name, partial, 0
        self.prefix = prefix
        self.requests = []

    def ids(self, blocks):
        self.next_id += blocks
        return list(range(self.next_id - blocks, self.next_id))

    def request(self, t, context, out, api, stop="tool_use", model=MODEL, think=None):
        tail = (17 + 5 * len(context)) % BLOCK if self.partial else 0
        return {"t": round(t, 3), "type": "s", "model": model, "in": BLOCK * len(context) + tail, "out": out,
                "hash_ids": context, "input_types": ["tool_result" if stop == "tool_use" else "text"],
                "output_types": ["text"], "stop": stop, "api_time": round(api, 3), "think_time": think}

    def main(self, *args, **kwargs):
        self.requests.append(self.request(*args, **kwargs))

    def agent(self, t, agent_id, requests, duration):
        self.requests.append({"t": round(t, 3), "type": "subagent", "agent_id": agent_id, "subagent_type": "Explore",
                              "duration_ms": int(duration * 1000), "total_tokens": None, "tool_use_count": None,
                              "status": "completed", "requests": requests, "models": [SMALL]})

    def write(self):
        trace = {"id": self.name, "models": [MODEL, SMALL], "block_size": BLOCK, "hash_id_scope": "local",
                 "tool_tokens": self.prefix * BLOCK, "system_tokens": 0, "requests": self.requests}
        path = pathlib.Path(__file__).with_name(f"{self.name}.json")
        path.write_text(json.dumps(trace, separators=(",", ":")) + "\n")


def grow(session, context, t, steps, pause, added, out, api):
    """A row of tool calls: each adds blocks and waits a little."""
    for step in range(steps):
        context = context + session.ids(added + step % 3)
        last = step == steps - 1
        session.main(t, context, out + 7 * step, api, stop="end_turn" if last else "tool_use", think=pause)
        t += api + pause
    return context, t


def helper(session, base, t, steps, gap, added, out, api):
    """A helper's requests: its own context, which grows from call to call."""
    context, requests = base, []
    for step in range(steps):
        context = context + session.ids(added + step)
        requests.append(session.request(t + gap * step, context, out, api, model=SMALL))
    return requests


def feature():
    s = Session("demo_01_feature")
    context, t = grow(s, s.ids(60), 0.0, 4, 1.2, 6, 40, 0.9)
    s.agent(t, "agent_001", helper(s, s.ids(40), t + 0.1, 3, 1.6, 5, 30, 0.8), 4.2)
    grow(s, context, t + 4.6, 5, 1.5, 8, 60, 1.1)
    s.write()


def bugfix():
    s = Session("demo_02_bugfix", prefix=24, partial=True)
    context, t = grow(s, s.ids(80), 0.0, 5, 0.8, 4, 35, 0.7)
    t += 6.0  # the user reads
    grow(s, context, t, 5, 1.0, 10, 50, 0.9)
    s.write()


def review():
    s = Session("demo_03_review")
    context, t = grow(s, s.ids(120), 0.0, 2, 1.0, 5, 45, 0.8)
    start = t
    for worker in range(3):
        begin = start + 0.2 * worker
        s.agent(begin, f"agent_{worker + 1:03}", helper(s, s.ids(30), begin, 2, 1.4, 6, 28, 0.7), 3.0)
    grow(s, context, t + 3.8, 4, 1.3, 7, 55, 1.0)
    s.write()


def refactor():
    s = Session("demo_04_refactor")
    context, t = grow(s, s.ids(200), 0.0, 6, 0.6, 20, 70, 0.8)
    compacted = context[:50] + s.ids(20)  # the context is compacted: a new, shorter prefix
    grow(s, compacted, t + 2.0, 5, 0.9, 12, 40, 0.8)
    s.write()


def explore():
    s = Session("demo_05_explore")
    context, t = grow(s, s.ids(50), 0.0, 3, 1.0, 5, 30, 0.7)
    s.main(t - 0.5, s.ids(20), 12, 0.4, model=SMALL)  # an untagged sidecar
    s.agent(t, "agent_001", helper(s, s.ids(35), t + 0.3, 4, 3.0, 4, 25, 0.9), 600.0)  # nobody waits for it
    grow(s, context, t + 1.0, 5, 1.4, 6, 45, 0.8)
    s.write()


def release():
    s = Session("demo_06_release", prefix=16, partial=True)
    context, t = grow(s, s.ids(300), 0.0, 3, 2.0, 15, 80, 1.2)
    t += 9.0
    grow(s, context, t, 4, 1.1, 9, 60, 1.0)
    s.write()


for make in (feature, bugfix, review, refactor, explore, release):
    make()
