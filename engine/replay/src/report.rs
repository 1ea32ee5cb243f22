//! What the engine says of itself: log lines people search for (`replay.md` §13.4), and the lines of `agentx snapshot`
//! and `agentx lanes` (`cli.md`).

use std::collections::BTreeMap;
use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_types::{ErrorClass, HandoffStream, PhaseSummary, RequestError, TurnIndex};
use serde_json::{Value, json};

use crate::lanes::{LanePlan, primer_lead_ms, primers, profiling_origins_ms};
use crate::options::ReplayOptions;
use crate::snapshot::{LiveStream, Snapshot};

/// The streams of a handoff, by (depth, id).
pub fn handoff_streams(template: &SessionTemplate, snapshot: &Snapshot) -> Vec<HandoffStream> {
    let mut streams: Vec<HandoffStream> = Vec::new();
    for live in &snapshot.live {
        let conversation = template.conversation(live.conversation);
        // Branches go by their short names here: without the trace in front.
        let short =
            |id: &str| Arc::from(id.strip_prefix(&*template.id).map_or(id, |rest| rest.trim_start_matches(':')));
        let branch = conversation.branch.map(|branch| template.branch(branch));
        let joins = branch.and_then(|branch| branch.join.map(|join| (short(&branch.id), join)));
        streams.push(HandoffStream {
            conversation: conversation.id.clone(),
            depth: u8::from(live.conversation.0 != 0),
            next_turn: live.next,
            offset_ms: live.offset_ms,
            waiting: live.waiting,
            joins: joins.into_iter().collect(),
        });
    }
    streams.sort_by(|a, b| (a.depth, &a.conversation).cmp(&(b.depth, &b.conversation)));
    streams
}

/// What a failed request means to the user: class, status, the server's words, and the key that may help.
pub fn failure_text(error: &RequestError, overflow: bool) -> String {
    let code = error.code.map(|code| format!(" {code}")).unwrap_or_default();
    let remedy = match (&error.class, error.code) {
        _ if overflow => "raise the server's length limit or lower `corpus.max_context_tokens`",
        (_, Some(401 | 403)) => "check `target.api_key`",
        (_, Some(404)) => "check `model.names` and `target.path`",
        (ErrorClass::ConnectRefused | ErrorClass::Dns | ErrorClass::ConnectTimeout, _) => {
            "check `target.urls`, and that the server is up"
        }
        (ErrorClass::Tls, _) => "check `target.tls`",
        (ErrorClass::RequestTimeout, _) => "raise `target.request_timeout` or check the server",
        _ => "look at the server's log",
    };
    format!("{}{code}: {}; {remedy}", error.class.name(), error.message)
}

/// The lines at the end of profiling.
pub fn profiling_end_lines(summary: &PhaseSummary, options: &ReplayOptions) -> Vec<String> {
    let s = &summary.branch_stats;
    let mut lines = Vec::new();
    match options.system_idle_cap {
        Some(cap) => lines.push(format!(
            "Global system-idle cap summary: limit={cap}s, jumps={}, skipped={:.2}s",
            summary.idle.system_jumps, summary.idle.system_skipped_seconds
        )),
        None => lines.push("Global system-idle cap summary: off".into()),
    }
    if let Some(cap) = options.trace_idle_cap {
        lines.push(format!(
            "Per-trace idle cap summary: limit={cap}s, jumps={}, skipped={:.2}s",
            summary.idle.trace_jumps, summary.idle.trace_skipped_seconds
        ));
    }
    lines.push(format!(
        "BranchOrchestrator stats: spawned={} completed={} errored={} truncated={} suspended={} resumed={} \
         parents_failed_due_to_child_error={} joins_suppressed={} delayed={}",
        s.children_spawned,
        s.children_completed,
        s.children_errored,
        s.children_truncated,
        s.parents_suspended,
        s.parents_resumed,
        s.parents_failed_due_to_child_error,
        s.joins_suppressed,
        s.children_delayed
    ));
    lines.push(format!(
        "Session-tree slots for phase profiling: peak_open={} (target concurrency {}); released {} still-open at teardown",
        summary.peak_open_trees, options.concurrency, summary.still_open_trees
    ));
    lines
}

/// The lines that tell how the lanes were built.
pub fn lane_lines(plans: &[LanePlan], templates: &[Arc<SessionTemplate>], options: &ReplayOptions) -> Vec<String> {
    let mut samples: Vec<f64> = plans.iter().filter_map(|plan| sample_percent(plan, templates)).collect();
    samples.sort_by(f64::total_cmp);
    let of = |q: f64| samples.get(((samples.len().max(1) - 1) as f64 * q).round() as usize).copied().unwrap_or(0.0);
    let mut lines = vec![
        format!("TrajectorySource: built {} trajectories from {} traces", plans.len(), templates.len()),
        format!(
            "range cfg=[{:.2}, {:.2}]  observed sample pct: min={:.1}% median={:.1}% max={:.1}%",
            options.start_ratio.0,
            options.start_ratio.1,
            of(0.0),
            of(0.5),
            of(1.0)
        ),
    ];
    for plan in plans {
        let template = &templates[plan.template.index()];
        let root = plan.snapshot.root();
        let turns = template.root().turns.len();
        let next = root.map_or_else(|| "-".to_string(), |root| root.next.to_string());
        lines.push(format!(
            "lane={:02}  sample_time={:3.0}%  root_next={next:>3}/{turns}  live={} ready={}  trace_id={}",
            plan.lane.0,
            sample_percent(plan, templates).unwrap_or(0.0),
            plan.snapshot.live.len(),
            plan.snapshot.live.iter().filter(|stream| !stream.waiting).count(),
            template.id
        ));
    }
    lines
}

fn sample_percent(plan: &LanePlan, templates: &[Arc<SessionTemplate>]) -> Option<f64> {
    let (lo, hi) = templates[plan.template.index()].bounds_ms()?;
    Some(if hi > lo { 100.0 * (plan.snapshot.t_star_ms - lo) / (hi - lo) } else { 0.0 })
}

/// One line when barriers are active: how many requests, how many of them gated, and the widths of the joins.
pub fn barrier_line(plans: &[LanePlan], templates: &[Arc<SessionTemplate>]) -> String {
    let used: std::collections::BTreeSet<usize> = plans.iter().map(|plan| plan.template.index()).collect();
    let (mut requests, mut gated) = (0, 0);
    let mut widths: BTreeMap<usize, usize> = BTreeMap::new();
    for turn in used.iter().flat_map(|&i| &templates[i].conversations).flat_map(|c| &c.turns) {
        requests += 1;
        if !turn.after.is_empty() {
            gated += 1;
            *widths.entry(turn.after.len()).or_default() += 1;
        }
    }
    let widths: Vec<String> = widths.iter().map(|(width, count)| format!("{width}: {count}")).collect();
    format!(
        "Replay interval barriers active: {requests} requests, {gated} gated turns, join-widths={{{}}}",
        widths.join(", ")
    )
}

/// `agentx snapshot`: what is live at one instant.
pub fn snapshot_line(template: &SessionTemplate, t_star_ms: f64) -> Value {
    let bounds = template.bounds_ms().map(|(lo, hi)| json!([lo, hi]));
    let snapshot = Snapshot::at(template, t_star_ms);
    json!({
        "trace": &*template.name,
        "t_star_ms": t_star_ms,
        "bounds_ms": bounds,
        "snapshot": snapshot.map(|snapshot| snapshot_object(template, &snapshot)),
    })
}

fn snapshot_object(template: &SessionTemplate, snapshot: &Snapshot) -> Value {
    const PRIMER_LEAD_CLAMP_MS: f64 = 10_000.0;
    let root = snapshot.root();
    let mut order: Vec<_> = snapshot.live.iter().collect();
    order.sort_by_key(|s| (s.conversation.0 != 0, template.conversation(s.conversation).id.clone()));
    let streams: Vec<Value> = order
        .iter()
        .map(|stream| {
            let conversation = template.conversation(stream.conversation);
            let branch = conversation.branch.map(|branch| template.branch(branch));
            let lead = primer_lead_ms(template, snapshot, stream);
            json!({
                "conversation": &*conversation.id,
                "depth": u8::from(stream.conversation.0 != 0),
                "next_turn": stream.next,
                "num_turns": conversation.turns.len(),
                "primer_turn": stream.primer(),
                "primer_lead_ms": lead,
                "primer_lead_clamped_ms": lead.map(|lead| lead.min(PRIMER_LEAD_CLAMP_MS)),
                "offset_ms": stream.offset_ms,
                "waiting_on_children": stream.waiting,
                "branch": branch.map(|branch| &*branch.id),
                "join_turn": if stream.waiting { Some(stream.next) } else { branch.and_then(|branch| branch.join) },
            })
        })
        .collect();
    let mut prefixes: Vec<(&str, u32)> = template
        .conversations
        .iter()
        .zip(&snapshot.completed)
        .filter(|(_, completed)| **completed > 0)
        .map(|(conversation, completed)| (&*conversation.id, *completed))
        .collect();
    prefixes.sort_unstable();
    let min_offset = snapshot.min_offset_ms();
    let mut first: Vec<(f64, &str, TurnIndex)> = order
        .iter()
        .filter(|stream| !stream.waiting)
        .map(|s| (s.offset_ms - min_offset.unwrap_or(0.0), &*template.conversation(s.conversation).id, s.next))
        .collect();
    first.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
    json!({
        "k_i": root.and_then(LiveStream::primer),
        "root_next_turn": root.map(|root| root.next),
        "rootless": root.is_none(),
        "root_waiting": root.is_some_and(|root| root.waiting),
        "streams": streams,
        "pending_joins": pending_joins(template, snapshot),
        "completed_prefixes": prefixes,
        "lane_min_offset_ms": min_offset,
        "first_dispatch_after_lane_min_ms": first,
        "tree_descendants_outstanding": snapshot.live.iter().filter(|stream| stream.conversation.0 != 0).count(),
    })
}

/// Gates of the root that a live helper feeds (`golden/TRAJECTORIES.md`).
fn pending_joins(template: &SessionTemplate, snapshot: &Snapshot) -> Vec<Value> {
    let Some(root) = snapshot.root() else { return Vec::new() };
    let mut gates = Vec::new();
    for (index, turn) in template.root().turns.iter().enumerate().skip(root.next.index()) {
        let live: Vec<usize> = turn.joins.iter().map(|&branch| snapshot.live_in_branch(template, branch)).collect();
        if live.iter().all(|&count| count == 0) {
            continue;
        }
        let branches: Vec<Value> = turn
            .joins
            .iter()
            .zip(&live)
            .filter(|(branch, live)| **live > 0 || !snapshot.spawned[branch.index()])
            .map(|(&branch, live)| {
                let declared = template.branch(branch);
                let registered = snapshot.spawned[branch.index()];
                let expected = if registered { *live } else { declared.children.len() };
                json!({"branch": &*declared.id, "expected": expected, "registered": registered})
            })
            .collect();
        let state = if index == root.next.index() { "blocked" } else { "future" };
        gates.push(json!({"parent": &*template.id, "join_turn": index, "state": state, "branches": branches}));
    }
    gates
}

/// `agentx lanes --format jsonl`: one object a lane.
pub fn lane_objects(plans: &[LanePlan], templates: &[Arc<SessionTemplate>], options: &ReplayOptions) -> Vec<Value> {
    let of = |plan: &LanePlan| templates[plan.template.index()].clone();
    let parts: Vec<_> = plans.iter().map(|plan| (plan.lane, of(plan), &plan.snapshot)).collect();
    let openings = primers(
        parts.iter().map(|(lane, template, snapshot)| (*lane, &**template, *snapshot)),
        options.system_idle_cap,
        options.burst_phase_starts,
    );
    let origins = profiling_origins_ms(plans.iter().map(|plan| &plan.snapshot), options.burst_phase_starts);
    let mut objects = Vec::new();
    for (plan, origin) in plans.iter().zip(origins) {
        let template = &templates[plan.template.index()];
        let id = |conversation| &*template.conversation(conversation).id;
        let root = plan.snapshot.root();
        let primers: Vec<Value> = openings
            .iter()
            .filter(|opening| opening.lane == plan.lane)
            .map(|o| {
                let stream = plan.snapshot.live.iter().find(|stream| stream.conversation == o.conversation);
                let lead = stream.and_then(|stream| primer_lead_ms(template, &plan.snapshot, stream));
                json!([id(o.conversation), o.turn, lead, o.at_ms])
            })
            .collect();
        let first: Vec<Value> = plan
            .snapshot
            .live
            .iter()
            .filter(|stream| !stream.waiting)
            .map(|stream| json!([id(stream.conversation), stream.next, stream.offset_ms - origin]))
            .collect();
        let mut object = json!({
            "lane": plan.lane,
            "trace": &*template.id,
            "t_star_ms": plan.snapshot.t_star_ms,
            "bounds_ms": template.bounds_ms().map(|(lo, hi)| json!([lo, hi])),
            "k_i": root.and_then(LiveStream::primer),
            "root_next_turn": root.map(|root| root.next),
            "rootless": root.is_none(),
            "root_waiting": root.is_some_and(|root| root.waiting),
            "primers": primers,
            "first": first,
            "join_deadline_ms": root.filter(|root| root.waiting).map(|root| (root.offset_ms - origin).max(0.0)),
        });
        if let (Some((seed, u)), Some(fields)) = (plan.draw, object.as_object_mut()) {
            fields.insert("lane_seed".into(), json!(seed.to_string()));
            fields.insert("u".into(), json!(u));
        }
        objects.push(object);
    }
    objects
}
