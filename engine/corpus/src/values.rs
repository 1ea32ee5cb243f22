//! Values of a turn (`corpus.md` §7): times, delays, models, limits, the kind of its input.

use std::sync::Arc;

use crate::chains::Row;
use crate::options::{CorpusOptions, DelayMode};
use crate::read::{Entry, InputTypes, Request, Stop, Trace};
use crate::template::InputKind;

/// Start, duration and delays of a turn, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Timing {
    /// Recorded start.
    pub start: Option<f64>,
    /// Recorded server time, at least 0.
    pub api: Option<f64>,
    /// Delay in the configured mode, capped.
    pub delay: Option<f64>,
    /// Delay under think-time mode, capped.
    pub think_delay: Option<f64>,
    /// Delay in the configured mode before the cap.
    pub uncapped: Option<f64>,
}

/// The times of a row behind the previous one of its conversation.
pub(crate) fn timing(previous: Option<&Row<'_>>, row: &Row<'_>, options: &CorpusOptions) -> Timing {
    if options.delays == DelayMode::None {
        return Timing::default();
    }
    let end_to_start = previous.map(|previous| {
        let served = previous.request.api_time.unwrap_or(0.0);
        ((row.t - previous.t) * 1000.0 - served * 1000.0).max(0.0)
    });
    let think = end_to_start.map(|gap| row.request.think_time.map_or(gap, |time| (time * 1000.0).max(0.0)));
    let cap = options.delay_cap_seconds.map_or(f64::INFINITY, |seconds| seconds * 1000.0);
    let uncapped = if options.delays == DelayMode::ThinkTime { think } else { end_to_start };
    Timing {
        start: Some(row.t * 1000.0),
        api: row.request.api_time.map(|time| time.max(0.0) * 1000.0),
        delay: uncapped.map(|delay| delay.min(cap)),
        think_delay: think.map(|delay| delay.min(cap)),
        uncapped,
    }
}

/// The output limit to ask for (`corpus.md` §7.6).
pub(crate) fn max_tokens(output: u64, cap: Option<u64>) -> u32 {
    let limited = output.min(cap.unwrap_or(u64::MAX)).max(1);
    u32::try_from(limited).unwrap_or(u32::MAX)
}

/// Kind of the new input (`corpus.md` §7.7).
pub(crate) fn input_kind(previous: Option<&Request>, request: &Request) -> Option<InputKind> {
    let stop = previous.map_or(Stop::Unknown, |previous| previous.stop);
    match (request.input_types, stop) {
        (InputTypes::ToolResult, _) | (InputTypes::Unknown, Stop::ToolUse) => Some(InputKind::Tool),
        (InputTypes::Other, _) | (InputTypes::Unknown, Stop::Other) => Some(InputKind::User),
        (InputTypes::Unknown, Stop::Unknown) => None,
    }
}

/// Which configured model stands for which recorded one (`corpus.md` §7.5).
#[derive(Clone, Debug)]
pub(crate) struct ModelMap {
    recorded: Vec<Arc<str>>,
    configured: usize,
}

impl ModelMap {
    /// The map of a trace: its main model first, then the others in order of appearance.
    pub(crate) fn of(trace: &Trace, configured: usize) -> Self {
        let requests = |entry: &Entry| match entry {
            Entry::Request(request) => vec![Arc::clone(&request.model)],
            Entry::Subagent(subagent) => subagent.requests.iter().map(|request| Arc::clone(&request.model)).collect(),
        };
        let main = trace.entries.iter().find(|entry| matches!(entry, Entry::Request(_))).map(requests);
        let mut recorded: Vec<Arc<str>> = Vec::new();
        for model in main.into_iter().flatten().chain(trace.entries.iter().flat_map(requests)) {
            if !recorded.contains(&model) {
                recorded.push(model);
            }
        }
        Self { recorded, configured }
    }

    /// Index of the configured model; without configured models, the recorded one's own number.
    pub(crate) fn index(&self, model: &str) -> u32 {
        let number = self.recorded.iter().position(|known| &**known == model).unwrap_or(0);
        if self.configured == 0 { number as u32 } else { (number % self.configured) as u32 }
    }
}
