//! Who spawns, who waits (`corpus.md` §6): anchors of helpers on the root's turns, and the branches they form.

use crate::chains::{EPS, Row};
use crate::read::Subagent;

/// The root's turns a helper hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchors {
    /// The turn that spawns it.
    pub spawn: usize,
    /// The turn that waits for it; none: background.
    pub join: Option<usize>,
}

/// Anchors of a subagent entry (§6.2); none: nothing comes before it, the entry is dropped.
pub(crate) fn entry_anchors(parents: &[Row<'_>], outer: u32, entry: &Subagent, rows: &[Row<'_>]) -> Option<Anchors> {
    let spawn = last_before(parents, outer)?;
    let end = match entry.duration_ms {
        Some(duration) => entry.t + duration.max(0) as f64 / 1000.0,
        None => latest_end(rows).unwrap_or(entry.t),
    };
    Some(Anchors { spawn, join: join_turn(parents, outer, spawn, end) })
}

/// Anchors of a flat chain (§6.3): turn 0 spawns what nothing comes before.
pub(crate) fn chain_anchors(parents: &[Row<'_>], rows: &[Row<'_>]) -> Anchors {
    let first = rows.first().map_or(0, |row| row.outer);
    let spawn = last_before(parents, first).unwrap_or(0);
    let end = latest_end(rows).unwrap_or(0.0);
    Anchors { spawn, join: join_turn(parents, first, spawn, end) }
}

fn last_before(parents: &[Row<'_>], outer: u32) -> Option<usize> {
    parents.iter().rposition(|parent| parent.outer < outer)
}

fn latest_end(rows: &[Row<'_>]) -> Option<f64> {
    rows.iter().map(Row::end).reduce(f64::max)
}

fn join_turn(parents: &[Row<'_>], outer: u32, spawn: usize, end: f64) -> Option<usize> {
    let behind = parents.iter().enumerate().skip(spawn + 1);
    behind.filter(|(_, parent)| parent.outer > outer).find(|(_, parent)| parent.t + EPS >= end).map(|(turn, _)| turn)
}

/// Helpers with the same anchors.
#[derive(Clone, Debug)]
pub(crate) struct Gathered {
    /// Their anchors.
    pub anchors: Anchors,
    /// Positions in the list that was gathered, in order.
    pub members: Vec<usize>,
}

/// Gathers helpers of equal anchors, in order of first appearance (§6.4).
pub(crate) fn gather(anchors: impl IntoIterator<Item = Anchors>) -> Vec<Gathered> {
    let mut branches: Vec<Gathered> = Vec::new();
    for (member, anchors) in anchors.into_iter().enumerate() {
        match branches.iter_mut().find(|branch| branch.anchors == anchors) {
            Some(branch) => branch.members.push(member),
            None => branches.push(Gathered { anchors, members: vec![member] }),
        }
    }
    branches
}

/// When a branch's streams go, counted from its spawn (§6.5), ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dispatch {
    /// Spawned when the spawning turn is dispatched; else when it returns.
    pub overlap: bool,
    origin: f64,
}

impl Dispatch {
    /// Of a branch that starts at `branch_start`, spawned by a turn with these recorded times, ms.
    pub(crate) fn of(spawn_start: f64, spawn_duration: f64, branch_start: f64) -> Self {
        let overlap = spawn_duration > 0.0 && branch_start < spawn_start + spawn_duration;
        Self { overlap, origin: if overlap { spawn_start } else { branch_start } }
    }

    /// Offset of a stream whose turn 0 starts at `start`, ms; 0 without turns.
    pub(crate) fn offset(self, start: Option<f64>) -> f64 {
        start.map_or(0.0, |start| (start - self.origin).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::options::CorpusOptions;
    use crate::testing::{branches, outline, parse, reconstruct, request, subagent, template, trace_json, with};

    /// A main turn that ends after 1 s.
    fn main(turn: u64, t: f64) -> Value {
        request(t, 1..turn + 3, 1.0)
    }

    fn helper(t: f64, id: &str) -> Value {
        subagent(t, id, &[request(t, 700..703, 1.0)])
    }

    #[test]
    fn an_entry_hangs_on_the_last_turn_before_it_and_joins_the_first_that_starts_after_its_end() {
        let joins = |changes: Value| {
            let entries = [main(0, 0.0), with(helper(2.0, "a"), changes), main(1, 5.0), main(2, 9.0)];
            branches(&template(&entries))
        };
        for (changes, expected) in [
            (json!({ "duration_ms": 3_000 }), "spawn:a 0>1 [sa:a]"),
            (json!({ "duration_ms": 3_000.0 }), "spawn:a 0>1 [sa:a]"),
            (json!({ "duration_ms": 3_001 }), "spawn:a 0>2 [sa:a]"),
            (json!({ "duration_ms": 7_001 }), "spawn:a 0>- [sa:a]"),
            (json!({ "duration_ms": -5 }), "spawn:a 0>1 [sa:a]"),
            // Without a duration its requests count, with one they do not.
            (json!({ "duration_ms": null, "requests": [request(2.0, 700..703, 4.0)] }), "spawn:a 0>2 [sa:a]"),
            (json!({ "duration_ms": 1, "requests": [request(2.0, 700..703, 4.0)] }), "spawn:a 0>1 [sa:a]"),
            (json!({ "duration_ms": null, "requests": [] }), "spawn:a 0>1 [sa:a]"),
            // A microsecond of slack.
            (json!({ "t": 2.000_000_5, "duration_ms": 3_000, "requests": [] }), "spawn:a 0>1 [sa:a]"),
            (json!({ "t": 2.000_002, "duration_ms": 3_000, "requests": [] }), "spawn:a 0>2 [sa:a]"),
        ] {
            assert_eq!(joins(changes.clone()), expected, "{changes}");
        }
    }

    #[test]
    fn shared_anchors_share_a_branch_but_never_across_kinds() {
        let flat = |t: f64, other: u64| request(t, [1, other], 0.5);
        let entries = [
            main(0, 0.0),
            helper(2.0, "a"),
            flat(2.5, 90),
            helper(3.0, "b"),
            flat(3.5, 95),
            main(1, 9.0),
            helper(10.0, "c"),
        ];
        let template = template(&entries);
        assert_eq!(outline(&template), "main 0 5, sa:a 1.0, sa:b 3.0, sa:c 6.0, aux:000 2, aux:001 4");
        let expected = "spawn:a 0>1 [sa:a sa:b], spawn:c 1>- [sa:c], flatspawn:0 0>1 [aux:000 aux:001]";
        assert_eq!(branches(&template), expected);
        let turns = &template.root().turns;
        assert_eq!(turns[0].spawns.iter().map(|branch| branch.0).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(turns[1].joins.iter().map(|branch| branch.0).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn an_entry_that_nothing_comes_before_is_dropped_and_may_share_its_id() {
        let entries = [helper(0.0, "a"), main(0, 1.0), helper(3.0, "a"), main(1, 9.0)];
        let (template, notes) = reconstruct(&parse(&trace_json(&entries)), &CorpusOptions::default()).expect("good");
        assert_eq!(branches(&template), "spawn:a 0>1 [sa:a]");
        assert_eq!(notes.dropped, ["a"]);
        let repeated = [main(0, 1.0), helper(3.0, "a"), helper(4.0, "a")];
        let error = reconstruct(&parse(&trace_json(&repeated)), &CorpusOptions::default()).expect_err("a repeated id");
        assert_eq!(error.code(), "duplicate_agent_id");
        assert_eq!(
            error.to_string(),
            "t.json: requests[2].agent_id `a` was already used by requests[1]; ids of subagents must be unique in a trace"
        );
        let alone = [helper(0.0, "a")];
        assert_eq!(outline(&crate::testing::template(&alone)), "main");
    }

    #[test]
    fn a_marker_behind_a_helpers_row_hangs_on_the_last_main_turn() {
        let entries = [main(0, 0.0), main(1, 2.0), request(3.5, [1, 90], 5.0), helper(4.0, "a"), main(2, 9.0)];
        assert_eq!(branches(&template(&entries)), "spawn:a 1>2 [sa:a], flatspawn:0 1>2 [aux:000]");
    }

    #[test]
    fn a_flat_chain_before_the_first_main_turn_hangs_on_turn_0() {
        let entries = [request(0.5, [1, 90], 1.0), main(0, 0.0), main(1, 9.0)];
        assert_eq!(branches(&template(&entries)), "flatspawn:0 0>1 [aux:000]");
    }

    #[test]
    fn a_branch_overlaps_a_turn_that_is_still_running() {
        let dispatch = |marker: f64, api_time: Value| {
            let first = with(main(0, 10.0), json!({ "api_time": api_time }));
            let inside = [request(marker + 0.5, 700..703, 1.0)];
            let template = template(&[first, subagent(marker, "a", &inside), main(1, 30.0)]);
            (template.branches[0].overlap, template.branches[0].children[0].offset_ms)
        };
        // While it runs: from its dispatch. Afterwards: from its return, without the pause before the marker.
        assert_eq!(dispatch(12.0, json!(4.0)), (true, 2_500.0));
        assert_eq!(dispatch(14.0, json!(4.0)), (false, 500.0));
        assert_eq!(dispatch(12.0, json!(0.0)), (false, 500.0));
        assert_eq!(dispatch(12.0, json!(null)), (false, 500.0));
        assert_eq!(dispatch(9.0, json!(4.0)), (true, 0.0));
    }

    #[test]
    fn scopes_keep_barriers_apart() {
        let inside = [request(2.0, 700..703, 1.0), request(3.5, [700, 900], 9.0), request(20.0, 700..704, 1.0)];
        let entries =
            [main(0, 0.0), subagent(2.0, "a", &inside), request(2.5, [1, 90], 1.0), main(1, 5.0), main(2, 30.0)];
        let template = template(&entries);
        assert_eq!(outline(&template), "main 0 3 4, sa:a 1.0 1.2, sa:a:aux:000 1.1, aux:000 2");
        let waits: Vec<String> = template
            .conversations
            .iter()
            .flat_map(|conversation| conversation.turns.iter().enumerate().map(move |turn| (conversation, turn)))
            .flat_map(|(conversation, (turn, values))| {
                values.after.iter().map(move |before| {
                    format!("{} {turn} after {}.{}", conversation.kind.name(), before.conversation, before.turn)
                })
            })
            .collect();
        let expected =
            ["main 1 after 3.0", "main 2 after 3.0", "sa 1 after 2.0", "sa:aux 0 after 1.0", "aux 0 after 0.0"];
        assert_eq!(waits, expected);
    }
}
