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
