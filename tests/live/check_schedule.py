#!/usr/bin/env python3
"""Checks a real run against the server's own log, by an independent model of the replay rules.

    check_schedule.py --agentx BIN --traces DIR --result DIR --server-log FILE [--tolerance-ms 50]

Needs a finished result of a plan with a sequential sampler, no pressure warm-up, no per-trace cap and no burst. Every request
that the server saw is predicted from the templates (`agentx inspect --format topology`), the lanes (`agentx lanes`) and the
ends of earlier requests as the server logged them; prompts, markers, session headers and token counts are compared as
well. Prints one line a check; exit 1 if any fails. Standard library only.
"""
import argparse
import collections
import heapq
import json
import pathlib
import subprocess
import sys


def lines(path):
    return [json.loads(line) for line in open(path) if line.strip()]


class Report:
    def __init__(self):
        self.failed = False

    def check(self, name, bad, good):
        if bad:
            self.failed = True
            print(f"FAIL {name}: {len(bad)} of {len(bad) + good}; first: {bad[0]}")
        else:
            print(f"ok   {name}: {good}")


class Play:
    """One play of a template: spawns, joins and barriers as the rules have them."""

    def __init__(self, model, lane, number, trace):
        self.model, self.lane, self.number = model, lane, number
        self.template = model.templates[trace]
        self.index = {c["session"]: i for i, c in enumerate(self.template["conversations"])}
        self.branches = {b["id"]: b for b in self.template["conversations"][0].get("branches", [])}
        self.branch_of = {child: b["id"] for b in self.branches.values() for child, _ in b["children"]}
        self.spawned, self.left = set(), collections.Counter()
        self.done = collections.Counter()
        self.retained, self.suspended = {}, None
        self.root_done, self.outstanding = False, 0

    def root(self):
        return self.template["conversations"][0]["session"]

    def turns(self, conversation):
        return self.template["conversations"][self.index[conversation]]["turns"]

    def gate_open(self, turn):
        return all(b in self.spawned and not self.left[b] for b in self.turns(self.root())[turn].get("joins", []))

    def ready(self, conversation, turn, due):
        waits = [(self.template["conversations"][c]["session"], k) for c, k in self.turns(conversation)[turn].get("after", [])]
        if any(self.done[c] <= k for c, k in waits):
            self.retained[conversation] = turn
            return
        self.model.dispatch(self, conversation, turn, due)
        if conversation == self.root():
            for branch in self.turns(conversation)[turn].get("spawns", []):
                if branch not in self.spawned and self.branches[branch]["overlap"]:
                    self.spawn(branch, self.model.now)

    def spawn(self, branch, now):
        self.spawned.add(branch)
        children = self.branches[branch]["children"]
        self.left[branch] += len(children)
        self.outstanding += len(children)
        for child, offset in children:
            if not self.turns(child):
                self.finish(child)
            elif offset > 0:
                self.model.timer(self, child, 0, self.model.replay(now) + offset)
            else:
                self.ready(child, 0, now)

    def finish(self, child):
        self.left[self.branch_of[child]] -= 1
        self.outstanding -= 1
        self.release()

    def release(self):
        if self.suspended and self.suspended[1] and self.gate_open(self.suspended[0]):
            turn, self.suspended = self.suspended[0], None
            self.ready(self.root(), turn, self.model.now)

    def due(self, conversation, turn, due):
        if self.suspended and conversation == self.root():
            self.suspended = (self.suspended[0], True)
            self.release()
        else:
            self.ready(conversation, turn, due)

    def ended(self, conversation, turn, now):
        final = turn + 1 == len(self.turns(conversation))
        self.done[conversation] = max(self.done[conversation], turn + 1)
        root = conversation == self.root()
        if not root and final:
            self.finish(conversation)
        for other, held in sorted(self.retained.items()):
            waits = [(self.template["conversations"][c]["session"], k) for c, k in self.turns(other)[held].get("after", [])]
            if all(self.done[c] > k for c, k in waits):
                del self.retained[other]
                self.ready(other, held, now)
        if root:
            for branch in self.turns(conversation)[turn].get("spawns", []):
                if branch not in self.spawned:
                    self.spawn(branch, now)
        if not final:
            delay = self.turns(conversation)[turn + 1]["delay"] or 0
            if root and not self.gate_open(turn + 1):
                self.suspended = (turn + 1, delay <= 0)
                if delay > 0:
                    self.model.timer(self, conversation, turn + 1, self.model.replay(now) + delay)
            elif delay > 0:
                self.model.timer(self, conversation, turn + 1, self.model.replay(now) + delay)
            else:
                self.ready(conversation, turn + 1, now)
        elif root:
            self.root_done = True
        return self.root_done and not self.outstanding


class Model:
    """Replays with the observed ends of requests; every predicted dispatch is compared with the observed arrival."""

    def __init__(self, templates, order, observed, cap_ms, tolerance):
        self.templates, self.order, self.observed = templates, order, observed
        self.cap, self.tolerance = cap_ms, tolerance
        self.skipped, self.jumps = 0.0, 0
        self.timers, self.ends, self.sequence = [], [], 0
        self.in_flight, self.idle_since, self.now = 0, 0.0, 0.0
        self.bad, self.errors, self.seen = [], [], set()

    def replay(self, real):
        return real + self.skipped

    def timer(self, play, conversation, turn, due):
        self.sequence += 1
        heapq.heappush(self.timers, (due, play.lane, self.sequence, play, conversation, turn))

    def dispatch(self, play, conversation, turn, due):
        key = (play.lane, play.number, conversation, turn)
        row = self.observed.get(key)
        if row is None:
            if due < self.stop - self.tolerance:
                self.bad.append(f"{key} was due at {due:.1f} ms and never came")
            return
        self.seen.add(key)
        error = row["arrival"] - due
        self.errors.append(error)
        if abs(error) > self.tolerance:
            self.bad.append(f"{key} due {due:.1f} ms, arrived {row['arrival']:.1f} ms")
        self.in_flight += 1
        self.sequence += 1
        heapq.heappush(self.ends, (row["end"], self.sequence, play, conversation, turn))

    def guard(self):
        if self.in_flight or not self.timers or self.cap is None:
            return
        rest = max(0.0, self.idle_since + self.cap - self.now)
        excess = self.timers[0][0] - self.skipped - self.now - rest
        if excess > 0:
            self.skipped += excess
            self.jumps += 1

    def run(self, plays, first, deadlines, stop):
        self.stop = stop
        next_draw, next_play = len(plays), len(plays)
        for play, conversation, turn, at in first:
            self.timer(play, conversation, turn, at)
        for play, at in deadlines:
            self.timer(play, play.root(), play.suspended[0], at)
        self.guard()
        while self.timers or self.ends:
            timer_at = self.timers[0][0] - self.skipped if self.timers else float("inf")
            end_at = self.ends[0][0] if self.ends else float("inf")
            if min(timer_at, end_at) >= stop:
                break
            self.now = min(timer_at, end_at)
            if timer_at < end_at:
                _, _, _, play, conversation, turn = heapq.heappop(self.timers)
                play.due(conversation, turn, timer_at)
            else:
                _, _, play, conversation, turn = heapq.heappop(self.ends)
                self.in_flight -= 1
                if not self.in_flight:
                    self.idle_since = self.now
                if play.ended(conversation, turn, self.now):
                    fresh = Play(self, play.lane, next_play, self.order[next_draw % len(self.order)])
                    next_draw, next_play = next_draw + 1, next_play + 1
                    fresh.ready(fresh.root(), 0, self.now)
            self.guard()


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--agentx", required=True)
    ap.add_argument("--traces", required=True)
    ap.add_argument("--result", required=True)
    ap.add_argument("--server-log", required=True)
    ap.add_argument("--tolerance-ms", type=float, default=50.0)
    o = ap.parse_args()
    result = pathlib.Path(o.result)
    plan = json.loads((result / "plan.lock.json").read_text())["plan"]
    cap = plan["timing"]["system_idle_cap"]
    run = lambda *args: [json.loads(l) for l in subprocess.check_output([o.agentx, *args], text=True).splitlines()]
    topology = run("inspect", o.traces, "--format", "topology")
    templates = {t["id"]: t for t in topology}
    order = [t["id"] for t in topology]
    lanes = run("lanes", o.traces, "--concurrency", str(plan["load"]["concurrency"]), "--seed", str(plan["sampling"]["seed"]),
                "--start-min", str(plan["load"]["start_ratio"]["min"]), "--start-max", str(plan["load"]["start_ratio"]["max"]),
                "--system-idle-cap", "off" if cap is None else str(cap), "--format", "jsonl")
    journal = lines(result / "agentx_journal.jsonl")
    phases = {j["phase"]: j for j in journal if j["line"] == "phase_ended"}
    records = lines(result / "profile_export.jsonl")
    log = {r["x_request_id"]: r for r in lines(o.server_log) if r.get("x_request_id")}
    report = Report()
    missing = [r["metadata"]["x_request_id"] for r in records if r["metadata"]["x_request_id"] not in log]
    report.check("every record is in the server's log", missing, len(records) - len(missing))

    start = {p: phases[p]["start_wall_ns"] for p in phases}
    rows, by_phase = [], collections.defaultdict(dict)
    for r in records:
        m, own, seen = r["metadata"], r["agentx"], log.get(r["metadata"]["x_request_id"])
        if seen is None:
            continue
        base = start[m["benchmark_phase"]]
        key = (own["lane"], own["play"], m["conversation_id"], m["turn_index"])
        row = dict(meta=m, own=own, log=seen, record=r, key=key,
                   arrival=(seen["arrival"] - base) / 1e6, end=(seen["end"] - base) / 1e6)
        rows.append(row)
        by_phase[m["benchmark_phase"]][key] = row

    # Warm-up: primers on their ramp.
    bad, good = [], 0
    for lane in lanes:
        for conversation, turn, _, at in lane["primers"]:
            row = by_phase["warmup"].get((lane["lane"], lane["lane"], conversation, turn))
            if row is None or abs(row["arrival"] - at) > o.tolerance_ms:
                bad.append(f"lane {lane['lane']} {conversation}[{turn}] planned {at:.1f}, {row and round(row['arrival'], 1)}")
            elif row["log"]["max_tokens"] != 1:
                bad.append(f"lane {lane['lane']} {conversation}[{turn}] asked for {row['log']['max_tokens']} tokens")
            else:
                good += 1
    report.check("primers at their times, one token each", bad, good)
    extra = len(by_phase["warmup"]) - sum(len(lane["primers"]) for lane in lanes)
    report.check("no other warm-up request", ["%d more" % extra] if extra else [], len(by_phase["warmup"]))

    # Profiling: resumes, spawns, joins, barriers, jumps and recycles.
    model = Model(templates, order, by_phase["profiling"], None if cap is None else cap * 1000.0, o.tolerance_ms)
    plays, first, deadlines = [], [], []
    for lane in lanes:
        play = Play(model, lane["lane"], lane["lane"], lane["trace"])
        plays.append(play)
        snapshot = run("snapshot", o.traces, "--trace", lane["trace"], "--t-star-ms", repr(lane["t_star_ms"]))[0]["snapshot"]
        play.root_done = snapshot["rootless"]
        play.done.update(dict(map(tuple, snapshot["completed_prefixes"])))
        root_next = snapshot["root_next_turn"]
        live = {s["conversation"]: s for s in snapshot["streams"]}
        for branch in play.branches.values():
            streams = [c for c, _ in branch["children"] if c in live]
            if streams or root_next is None or branch["spawn"] < root_next:
                play.spawned.add(branch["id"])
            play.left[branch["id"]] += len(streams)
            play.outstanding += len(streams)
        if lane["root_waiting"]:
            play.suspended = (root_next, lane["join_deadline_ms"] <= 0)
            if lane["join_deadline_ms"] > 0:
                deadlines.append((play, lane["join_deadline_ms"]))
        first += [(play, c, k, at) for c, k, at in lane["first"]]
    profiling = phases["profiling"]
    stop = min(profiling["duration_seconds"] * 1000.0, (profiling["end_wall_ns"] - profiling["start_wall_ns"]) / 1e6)
    model.run(plays, first, deadlines, stop)
    unexpected = [f"{k} at {r['arrival']:.1f} ms" for k, r in by_phase["profiling"].items()
                  if k not in model.seen and r["arrival"] < stop - o.tolerance_ms]
    # Requests cancelled at the end of the grace period leave no record.
    lost = [bad for bad in model.bad if bad.endswith("never came")]
    if len(lost) <= profiling["counters"]["cancelled"]:
        model.bad = [bad for bad in model.bad if bad not in lost]
    report.check(f"every dispatch at its time (within {o.tolerance_ms:g} ms)", model.bad, len(model.errors))
    report.check("no dispatch that the model does not know", unexpected, len(model.seen))
    jumps = profiling["idle"]["system_jumps"]
    report.check("idle jumps", [f"{jumps} jumps, the model has {model.jumps}"] if jumps != model.jumps else [], jumps)
    if model.errors:
        errors = sorted(model.errors)
        print(f"     arrival minus due: min {errors[0]:.2f} ms, median {errors[len(errors) // 2]:.2f} ms, max {errors[-1]:.2f} ms")

    # Prompts, markers, headers, tokens.
    bad, good, previous = [], 0, {}
    for row in sorted(rows, key=lambda row: row["log"]["arrival"]):
        m = row["meta"]
        stream = m["x_correlation_id"]
        turns = templates[m["source_trace_id"]]["conversations"]
        turn = next(c for c in turns if c["session"] == m["conversation_id"])["turns"][m["turn_index"]]
        if stream in previous:
            before, now = previous[stream]["log"]["messages"], row["log"]["messages"]
            kept = 0
            while kept < min(len(before), len(now)) and before[kept] == now[kept]:
                kept += 1
            # What differs first must have been meant to: a plain continuation changes nothing, and after an edit the
            # message there has another role or length, or was the last one (its tail is new at each turn).
            if not turn["reset"] and kept < len(before):
                bad.append(f"{row['key']}: a plain continuation changed message {kept} of {len(before)}")
            elif kept < min(len(before) - 1, len(now)) and before[kept][::2] == now[kept][::2]:
                bad.append(f"{row['key']}: message {kept} of {len(before)} has the same length and other bytes")
            else:
                good += 1
        previous[stream] = row
    report.check("prefixes are byte-identical", bad, good)

    markers = collections.defaultdict(set)
    for row in rows:
        markers[row["own"]["lane"], row["own"]["play"]].add(row["log"]["marker"])
    bad = [f"play {k} has {sorted(map(str, v))}" for k, v in markers.items() if len(v) != 1 or None in v]
    bad += ["two plays share a marker"] if len({str(v) for v in markers.values()}) != len(markers) else []
    report.check("one marker a play, none shared", bad, len(markers))

    bad, ids = [], collections.defaultdict(set)
    for row in rows:
        m, headers = row["meta"], {k.lower(): v for k, v in row["log"]["headers"].items()}
        ids[row["own"]["lane"], row["own"]["play"], m["conversation_id"]].add(headers.get("x-correlation-id"))
        for name, value in headers.items():
            if name in ("x-session-id", "x-smg-routing-key", "x-dynamo-session-id", "x-session-affinity"):
                if value != m["x_correlation_id"]:
                    bad.append(f"{row['key']}: {name} is {value}")
        if "x-dynamo-session-id" in headers and m["agent_depth"] == 1:
            if headers.get("x-dynamo-parent-session-id") != m["parent_correlation_id"]:
                bad.append(f"{row['key']}: parent session id is {headers.get('x-dynamo-parent-session-id')}")
    bad += [f"{k} has {sorted(map(str, v))}" for k, v in ids.items() if len(v) != 1]
    report.check("one session id a stream, warm-up to profiling", bad, len(ids))

    bad, marker_tokens = [], collections.defaultdict(set)
    for row in rows:
        m = row["meta"]
        conversations = templates[m["source_trace_id"]]["conversations"]
        recorded = next(c for c in conversations if c["session"] == m["conversation_id"])["turns"][m["turn_index"]]["in"]
        marker_tokens[row["log"]["marker"]].add(row["log"]["prompt"] - recorded)
    bad = [f"{marker}: {sorted(extra)} tokens" for marker, extra in marker_tokens.items() if len(extra) != 1 or not 1 <= min(extra) <= 30]
    report.check("prompt tokens are the recorded ones plus the marker's, request by request", bad, len(marker_tokens))
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
