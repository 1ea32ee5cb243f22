//! What a worker is (`corpus.md` §5.5).

use std::sync::Arc;

use super::Row;
use crate::options::WekaKnobs;

/// What a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerClass {
    /// Small, or on another model.
    Auxiliary,
    /// One request that boils a long input down.
    Reduction,
    /// Member of a group: numbers of the group and in it.
    Group(u32, u32),
    /// An agent of its own.
    Solo,
}

/// What workers are measured against: the main chain without its preamble.
pub(super) struct Yardstick {
    peak_input: u64,
    model: Option<Arc<str>>,
}

impl Yardstick {
    /// Takes the measure of the main chain.
    pub(super) fn of(rows: &[Row<'_>], main: &[usize]) -> Self {
        Self {
            peak_input: main.iter().map(|row| rows[*row].request.input).max().unwrap_or(0),
            model: main.first().map(|row| Arc::clone(&rows[*row].request.model)),
        }
    }
}

/// The class of one worker.
pub(super) fn class(
    rows: &[Row<'_>],
    own: &[usize],
    group: Option<(u32, u32)>,
    main: &Yardstick,
    knobs: &WekaKnobs,
) -> WorkerClass {
    let first = rows[own[0]].request;
    let cross_model = knobs.aux_cross_model && main.model.as_ref().is_some_and(|model| *model != first.model);
    let small = knobs.aux_isl_floor.max((knobs.aux_isl_ratio * main.peak_input as f64).trunc() as u64);
    if own.len() <= knobs.aux_max_requests && (cross_model || first.input < small) {
        return WorkerClass::Auxiliary;
    }
    let reduces = first.output > 0
        && first.output < knobs.aux_reduction_osl_max
        && first.input >= knobs.aux_isl_floor
        && first.input as f64 > knobs.aux_reduction_ratio * first.output as f64;
    if own.len() == 1 && reduces {
        return WorkerClass::Reduction;
    }
    match group {
        Some((group, member)) => WorkerClass::Group(group, member),
        None => WorkerClass::Solo,
    }
}
