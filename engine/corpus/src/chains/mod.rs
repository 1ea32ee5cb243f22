//! Which requests belong to one agent (`corpus.md` §5): a list of rows becomes a main chain and workers.
//!
//! Evidence are the hash ids alone. Rows are named by their position in the list they came from, which orders them as
//! their index in the file does.

mod classify;
mod greedy;
mod groups;
mod preamble;
mod seams;
#[cfg(test)]
mod tests;

pub(crate) use classify::WorkerClass;

use crate::options::WekaKnobs;
use crate::read::Request;

/// Slack of comparisons between recorded times, s.
pub(crate) const EPS: f64 = 1e-6;

/// A request in its list, on the trace's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    /// The request.
    pub request: &'a Request,
    /// Start, s from the start of the trace.
    pub t: f64,
    /// Index in the trace's list (its entry's, inside a subagent).
    pub outer: u32,
    /// Index in the subagent's list.
    pub inner: Option<u32>,
}

impl Row<'_> {
    /// Recorded end, s.
    pub(crate) fn end(&self) -> f64 {
        self.t + self.request.duration()
    }

    fn has_ids(&self) -> bool {
        self.request.id_count > 0
    }
}

/// Where a chain forked off: positions of the chain and of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ForkPoint {
    chain: usize,
    row: usize,
}

/// A chain under construction.
#[derive(Clone, Debug, Default)]
struct Chain {
    /// Its rows, in order.
    rows: Vec<usize>,
    /// Its last row with ids.
    tail: Option<usize>,
    /// Where it forked off; none for a chain that shares nothing.
    fork: Option<ForkPoint>,
    /// Ids shared with the row it forked off.
    depth: u32,
    /// The chain it was joined to; none while it lives.
    joined: Option<usize>,
}

/// A helper's chain.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    /// Positions of its rows, in order.
    pub rows: Vec<usize>,
    /// What it is.
    pub class: WorkerClass,
}

/// A list, split.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    /// Positions of the main agent's rows, in replay order, the preamble among them.
    pub main: Vec<usize>,
    /// Position of the preamble.
    pub preamble: Option<usize>,
    /// First row with ids of the main chain without the preamble.
    pub main_first_with_ids: Option<usize>,
    /// Helpers, by their first row.
    pub workers: Vec<Worker>,
}

/// Splits a list into the main chain and workers.
pub(crate) fn split(rows: &[Row<'_>], knobs: &WekaKnobs) -> Split {
    let order = by_time(rows);
    let preamble = preamble::find(rows, &order);
    let detected: Vec<usize> = order.into_iter().filter(|row| Some(*row) != preamble).collect();
    let mut chains = greedy::grow(rows, &detected);
    seams::join(rows, &mut chains, knobs);

    // Chain 0 holds the earliest row and never forks, so that it lives on as the main chain.
    let main = chains.first().map(|chain| chain.rows.clone()).unwrap_or_default();
    let main_first_with_ids = main.iter().copied().find(|row| rows[*row].has_ids());
    let mut live: Vec<usize> = (1..chains.len()).filter(|chain| chains[*chain].joined.is_none()).collect();
    live.sort_by(|a, b| time_order(rows, chains[*a].rows[0], chains[*b].rows[0]));
    if live.is_empty() {
        // Nothing was split off: the list stays as it was recorded.
        return Split { main: (0..rows.len()).collect(), preamble, main_first_with_ids, workers: Vec::new() };
    }

    let groups = groups::assign(rows, &chains, &live, knobs.worker_group_min);
    let yardstick = classify::Yardstick::of(rows, &main);
    let workers = live
        .iter()
        .zip(groups)
        .map(|(chain, group)| {
            let rows_of_chain = chains[*chain].rows.clone();
            Worker { class: classify::class(rows, &rows_of_chain, group, &yardstick, knobs), rows: rows_of_chain }
        })
        .collect();
    let mut main = main;
    main.extend(preamble);
    main.sort_by(|a, b| time_order(rows, *a, *b));
    Split { main, preamble, main_first_with_ids, workers }
}

/// The list as one chain, in the order it has.
pub(crate) fn unsplit(rows: &[Row<'_>]) -> Split {
    Split {
        main: (0..rows.len()).collect(),
        preamble: None,
        main_first_with_ids: (0..rows.len()).find(|row| rows[*row].has_ids()),
        workers: Vec::new(),
    }
}

/// Positions in order of (t, index).
pub(crate) fn by_time(rows: &[Row<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| time_order(rows, *a, *b));
    order
}

fn time_order(rows: &[Row<'_>], a: usize, b: usize) -> std::cmp::Ordering {
    rows[a].t.total_cmp(&rows[b].t).then(a.cmp(&b))
}

/// The live chain that a chain was joined to, directly or through others.
fn live(chains: &[Chain], mut chain: usize) -> usize {
    while let Some(owner) = chains[chain].joined {
        chain = owner;
    }
    chain
}
