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
