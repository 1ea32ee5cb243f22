//! The invariants of `corpus.md` §14, checked on every template before its trace is dropped.

use std::collections::BTreeSet;

use crate::chains::EPS;
use crate::read::{Entry, Trace};
use crate::runs::common_prefix;
use crate::streams::Stream;
use crate::template::{Conversation, Role, SessionTemplate};

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Its number.
    pub rule: u8,
    /// How it is broken.
    pub what: String,
}

fn ensure(holds: bool, rule: u8, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { rule, what: what() }) }
}

/// Checks a template against the trace it was made of, of which `dropped` entries were left out.
pub(crate) fn check(
    trace: &Trace,
    streams: &[&Stream<'_>],
    dropped: usize,
    template: &SessionTemplate,
) -> Result<(), Violation> {
    every_request_once(trace, dropped, template)?;
    for (stream, conversation) in streams.iter().zip(&template.conversations) {
        one_agent(stream)?;
        messages(trace, stream, conversation)?;
        values(conversation)?;
    }
    branches(template)?;
    predecessors(template)?;
    let ids: BTreeSet<&str> = template.conversations.iter().map(|conversation| &*conversation.id).collect();
    ensure(ids.len() == template.conversations.len(), 9, || "two conversations have one id".into())
}

/// Rule 1.
fn every_request_once(trace: &Trace, dropped: usize, template: &SessionTemplate) -> Result<(), Violation> {
    let mut seen = BTreeSet::new();
    for turn in template.conversations.iter().flat_map(|conversation| &conversation.turns) {
        let (outer, inner) = (turn.source.outer, turn.source.inner);
        ensure(seen.insert((outer, inner)), 1, || format!("requests[{outer}] ({inner:?}) is in two turns"))?;
    }
    let entries: BTreeSet<u32> = seen.iter().filter(|source| source.1.is_some()).map(|source| source.0).collect();
    let mut missing = 0;
    for (outer, entry) in trace.entries.iter().enumerate() {
        let outer = outer as u32;
        match entry {
            Entry::Request(_) => {
                ensure(seen.contains(&(outer, None)), 1, || format!("requests[{outer}] is in no turn"))?;
            }
            Entry::Subagent(entry) if !entry.requests.is_empty() && !entries.contains(&outer) => missing += 1,
            Entry::Subagent(entry) if entries.contains(&outer) => {
                let whole = (0..entry.requests.len()).all(|inner| seen.contains(&(outer, Some(inner as u32))));
                ensure(whole, 1, || format!("a request of requests[{outer}] is in no turn"))?;
            }
            Entry::Subagent(_) => {}
        }
    }
    ensure(missing <= dropped, 1, || format!("{missing} subagents are missing, {dropped} were dropped"))
}

/// Rules 2 and 3.
fn one_agent(stream: &Stream<'_>) -> Result<(), Violation> {
    if !stream.sequential {
        return Ok(());
    }
    let evidence =
        |(turn, row): &(usize, &crate::chains::Row<'_>)| Some(*turn) != stream.preamble && row.request.id_count > 0;
    let rows: Vec<_> = stream.rows.iter().enumerate().filter(evidence).map(|(_, row)| row).collect();
    for pair in rows.windows(2) {
        let apart = pair[0].end() <= pair[1].t + EPS;
        ensure(apart, 2, || format!("turns of `{}` overlap at {} s", stream.id, pair[1].t))?;
        let same = pair[0].request.model == pair[1].request.model;
        ensure(same, 3, || format!("`{}` changes its model at {} s", stream.id, pair[1].t))?;
    }
    Ok(())
}

/// Rules 5 and 6. What a turn keeps was compared at the turn before, so that only what it adds is compared here.
fn messages(trace: &Trace, stream: &Stream<'_>, conversation: &Conversation) -> Result<(), Violation> {
    let mut sizes: Vec<(u64, u32, Role)> = Vec::new();
    let (mut tokens, mut blocks) = (0_u64, 0_u32);
    for (turn, (row, values)) in stream.rows.iter().zip(&conversation.turns).enumerate() {
        let place = || format!("turn {turn} of `{}`", stream.id);
        let ids = &row.request.ids;
        for (size, held, _) in sizes.drain(values.edit.keep as usize..) {
            tokens -= size;
            blocks -= held;
        }
        let known = match turn.checked_sub(1) {
            Some(previous) => common_prefix(&stream.rows[previous].request.ids, ids),
            None => 0,
        };
        ensure(blocks <= known, 5, || format!("{} keeps blocks it does not have", place()))?;
        for segment in &values.edit.push {
            let expected = crate::runs::slice(ids, blocks, blocks + segment.blocks);
            ensure(segment.runs == expected, 5, || format!("{} has other blocks than its hash_ids", place()))?;
            let size = u64::from(segment.blocks) * u64::from(trace.block_size) + u64::from(segment.tail);
            tokens += size;
            blocks += segment.blocks;
            sizes.push((size, segment.blocks, segment.role));
        }
        let covered = (row.request.input / u64::from(trace.block_size)).min(u64::from(row.request.id_count));
        ensure(tokens == row.request.input && u64::from(blocks) == covered, 5, || {
            format!("{} has {tokens} tokens in {blocks} blocks instead of {} in {covered}", place(), row.request.input)
        })?;
        let last = sizes.last().map(|(_, _, role)| *role);
        let ends_well = match last {
            Some(Role::User | Role::Tool) => true,
            Some(Role::System) => sizes.len() == 1,
            _ => false,
        };
        ensure(ends_well, 6, || format!("{} ends with {last:?}", place()))?;
    }
    Ok(())
}

/// Rule 7.
fn values(conversation: &Conversation) -> Result<(), Violation> {
    for (turn, values) in conversation.turns.iter().enumerate() {
        let delays = [values.delay_ms, values.think_delay_ms];
        let good =
            delays.into_iter().flatten().all(|delay| delay.is_finite() && delay >= 0.0) && values.max_tokens >= 1;
        ensure(good, 7, || format!("turn {turn} of `{}` has a bad delay or output limit", conversation.id))?;
    }
    Ok(())
}

/// Rule 4.
fn branches(template: &SessionTemplate) -> Result<(), Violation> {
    let turns = &template.root().turns;
    let mut homes = vec![0_usize; template.conversations.len()];
    for (number, branch) in template.branches.iter().enumerate() {
        let listed = turns.iter().flat_map(|turn| &turn.spawns).filter(|spawn| spawn.index() == number).count();
        let well = listed == 1 && branch.join.is_none_or(|join| join > branch.spawn && join.index() < turns.len());
        ensure(well, 4, || format!("branch `{}` is not spawned once, or joined before it is spawned", branch.id))?;
        for child in &branch.children {
            match homes.get_mut(child.conversation.index()) {
                Some(home) => *home += 1,
                None => ensure(false, 4, || format!("branch `{}` has an unknown child", branch.id))?,
            }
        }
    }
    let homeless = homes.iter().enumerate().find(|(index, count)| **count != usize::from(*index > 0));
    ensure(homeless.is_none(), 4, || format!("conversation {homeless:?} is not in exactly one branch"))
}

/// Rule 8: all turns can be put in an order that respects streams, predecessors and joins.
fn predecessors(template: &SessionTemplate) -> Result<(), Violation> {
    let mut first = Vec::with_capacity(template.conversations.len());
    let mut total = 0;
    for conversation in &template.conversations {
        first.push(total);
        total += conversation.turns.len();
    }
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); total];
    let mut waits = vec![0_usize; total];
    let mut edge = |from: usize, to: usize| {
        followers[from].push(to);
        waits[to] += 1;
    };
    for (index, conversation) in template.conversations.iter().enumerate() {
        for (turn, values) in conversation.turns.iter().enumerate() {
            let node = first[index] + turn;
            if turn > 0 {
                edge(node - 1, node);
            }
            for before in &values.after {
                let other = template.conversation(before.conversation);
                let good = before.conversation.index() != index && other.scope == conversation.scope;
                ensure(good, 8, || format!("turn {turn} of `{}` waits outside its scope", conversation.id))?;
                edge(first[before.conversation.index()] + before.turn.index(), node);
            }
            for child in values.joins.iter().flat_map(|branch| &template.branch(*branch).children) {
                let turns = template.conversation(child.conversation).turns.len();
                if turns > 0 {
                    edge(first[child.conversation.index()] + turns - 1, node);
                }
            }
        }
    }
    let mut ready: Vec<usize> = (0..total).filter(|node| waits[*node] == 0).collect();
    let mut done = 0;
    while let Some(node) = ready.pop() {
        done += 1;
        for follower in &followers[node] {
            waits[*follower] -= 1;
            if waits[*follower] == 0 {
                ready.push(*follower);
            }
        }
    }
    ensure(done == total, 8, || format!("{} turns wait for each other in a circle", total - done))
}

#[cfg(test)]
mod tests {
    use agentx_types::{BranchIndex, ConversationIndex, TurnIndex};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::options::CorpusOptions;
    use crate::streams::take_apart;
    use crate::template::TurnRef;
    use crate::testing::{outline, parse, reconstruct, request, subagent, trace_json, with};

    /// The number of the rule that a changed template breaks.
    fn broken(change: impl FnOnce(&mut SessionTemplate)) -> Option<u8> {
        let inside = [request(2.0, 700..703, 1.0), request(4.0, 700..705, 1.0)];
        let entries = [
            request(0.0, 1..5, 1.0),
            subagent(2.0, "a", &inside),
            request(2.5, [1, 90], 1.0),
            request(9.0, 1..9, 1.0),
            request(19.0, 1..11, 1.0),
        ];
        let trace = parse(&trace_json(&entries));
        let (mut template, _) = reconstruct(&trace, &CorpusOptions::default()).expect("a good trace");
        assert_eq!(outline(&template), "main 0 3 4, sa:a 1.0 1.1, aux:000 2");
        change(&mut template);
        let parts = take_apart(&trace, &CorpusOptions::default().weka).expect("a good trace");
        let streams: Vec<&Stream<'_>> = std::iter::once(&parts.root)
            .chain(parts.entries.iter().flat_map(|entry| &entry.streams))
            .chain(parts.flat.iter().map(|chain| &chain.stream))
            .collect();
        check(&trace, &streams, 0, &template).err().map(|violation| violation.rule)
    }

    #[test]
    fn each_rule_is_looked_after() {
        let set = |at: (usize, usize), change: fn(&mut crate::template::Turn)| {
            broken(|template| change(&mut template.conversations[at.0].turns[at.1]))
        };
        assert_eq!(broken(|_| ()), None);
        assert_eq!(set((0, 1), |turn| turn.source.outer = 0), Some(1));
        assert_eq!(broken(|template| drop(template.conversations[1].turns.pop())), Some(1));
        assert_eq!(broken(|template| template.branches[0].join = Some(TurnIndex(0))), Some(4));
        assert_eq!(broken(|template| template.conversations[0].turns[1].spawns.push(BranchIndex(0))), Some(4));
        assert_eq!(broken(|template| template.branches[1].children.clear()), Some(4));
        assert_eq!(set((0, 2), |turn| turn.edit.push[0].tail += 1), Some(5));
        assert_eq!(set((0, 2), |turn| turn.edit.push[0].runs[0].first += 1), Some(5));
        assert_eq!(set((0, 2), |turn| turn.edit.push.iter_mut().for_each(|one| one.role = Role::Assistant)), Some(6));
        assert_eq!(set((0, 1), |turn| turn.delay_ms = Some(-1.0)), Some(7));
        assert_eq!(set((0, 1), |turn| turn.max_tokens = 0), Some(7));
        let waits = |at: (usize, usize), on: (u32, u32)| {
            broken(|template| {
                let on = TurnRef { conversation: ConversationIndex(on.0), turn: TurnIndex(on.1) };
                template.conversations[at.0].turns[at.1].after.push(on);
            })
        };
        assert_eq!(waits((0, 1), (2, 0)), None);
        // Another scope; its own stream; a turn that waits for the helper that waits for it.
        assert_eq!(waits((0, 1), (1, 0)), Some(8));
        assert_eq!(waits((0, 2), (0, 1)), Some(8));
        assert_eq!(waits((2, 0), (0, 2)), Some(8));
        assert_eq!(broken(|template| template.conversations[2].id = "t".into()), Some(9));
    }

    /// A request on one of a few rows of ids that share beginnings; times are coarse, so that everything collides.
    fn random_request() -> impl Strategy<Value = Value> {
        let ids = (0_u64..4, 0_u64..9, 0_u64..7).prop_map(|(base, shared, own)| {
            let own = (0..own).map(move |id| 100 * base + 20 + id);
            (0..shared).chain(own).collect::<Vec<u64>>()
        });
        let api_time =
            prop_oneof![3 => (0_u32..9).prop_map(|time| json!(time)), 1 => Just(json!(null)), 1 => Just(json!(-2))];
        let stop = prop_oneof![Just("tool_use"), Just("end_turn"), Just("")];
        (0_u32..40, ids, -70_i64..70, prop_oneof![Just(0_u32), 1_u32..400], api_time, 0_u8..4, stop).prop_map(
            |(t, ids, off, out, api_time, model, stop)| {
                let aligned = 64 * ids.len() as i64;
                let input = if off % 3 == 0 { aligned } else { (aligned + off).max(0) };
                let model = if model == 0 { "x" } else { "m" };
                with(
                    request(f64::from(t), ids, 0.0),
                    json!({
                        "in": input, "out": out, "api_time": api_time, "model": model, "stop": stop,
                        "think_time": if off > 40 { json!(off) } else { json!(null) },
                    }),
                )
            },
        )
    }

    fn random_entry() -> impl Strategy<Value = Value> {
        let marker =
            (0_u32..40, 0_u32..9, prop::collection::vec(random_request(), 0..7), prop::option::of(0_i64..20_000));
        let marker = marker.prop_map(|(t, id, requests, duration)| {
            with(subagent(f64::from(t), &format!("a{id}"), &requests), json!({ "duration_ms": duration }))
        });
        prop_oneof![4 => random_request(), 1 => marker]
    }

    fn random_trace() -> impl Strategy<Value = Value> {
        let sorted = |mut entries: Vec<Value>| {
            entries.sort_by(|a, b| a["t"].as_f64().unwrap_or(0.0).total_cmp(&b["t"].as_f64().unwrap_or(0.0)));
            entries
        };
        (prop::collection::vec(random_entry(), 0..40), any::<bool>(), prop_oneof![3 => Just(0_u32), 1 => 1_u32..200])
            .prop_map(move |(entries, in_order, prefix)| {
                let entries = if in_order { sorted(entries) } else { entries };
                with(trace_json(&entries), json!({ "tool_tokens": prefix }))
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

        /// Whatever the trace, its template keeps all rules or the trace is refused for a reason of its own.
        #[test]
        fn random_traces_keep_the_rules(json in random_trace(), split in any::<bool>(), tool_shaped in any::<bool>()) {
            let trace = parse(&json);
            let mut options = CorpusOptions::default();
            options.weka.split_flattened_agents = split;
            options.weka.tool_shaped_messages = tool_shaped;
            options.weka.worker_group_min = 2;
            let template = match reconstruct(&trace, &options) {
                Ok((template, _)) => template,
                Err(error) => {
                    prop_assert!(["prefix_uncovered", "duplicate_agent_id"].contains(&error.code()), "{}", error);
                    return Ok(());
                }
            };
            for conversation in &template.conversations {
                for (turn, values) in conversation.turns.iter().enumerate() {
                    let list = conversation.context_at(turn.into());
                    let tokens: u64 = list.iter().map(|one| u64::from(one.blocks) * 64 + u64::from(one.tail)).sum();
                    prop_assert_eq!(tokens, values.input_tokens);
                    prop_assert!(!list.is_empty() && (1..=list.len()).contains(&(values.emitted as usize)));
                    // What is not sent anew was not touched.
                    let untouched = list.len() - values.emitted as usize;
                    prop_assert!(values.reset || turn == 0 || untouched == values.edit.keep as usize);
                    prop_assert!(values.cache.hits <= values.cache.total);
                }
            }
        }
    }
}
