//! Which traces are played (`corpus.md` §3): the filters, before the cap.

use crate::options::CorpusOptions;
use crate::read::{Entry, Request, Trace};

/// Greatest input + output of a trace, tokens; top-level outputs capped at `output_cap` (§3.1). 0 without requests.
pub(crate) fn peak(trace: &Trace, output_cap: Option<u64>) -> u64 {
    let cap = output_cap.unwrap_or(u64::MAX);
    let context = |request: &Request, cap: u64| request.input + request.output.min(cap).max(1);
    let peaks = trace.entries.iter().map(|entry| match entry {
        Entry::Request(request) => context(request, cap),
        Entry::Subagent(entry) => entry.requests.iter().map(|request| context(request, u64::MAX)).max().unwrap_or(0),
    });
    peaks.max().unwrap_or(0)
}

/// Greatest input of a trace, tokens.
pub(crate) fn longest_input(trace: &Trace) -> u64 {
    let inputs = trace.entries.iter().map(|entry| match entry {
        Entry::Request(request) => request.input,
        Entry::Subagent(entry) => entry.requests.iter().map(|request| request.input).max().unwrap_or(0),
    });
    inputs.max().unwrap_or(0)
}

/// What the filters look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measure {
    /// Peak context, tokens.
    pub peak: u64,
    /// Longest input, tokens.
    pub longest_input: u64,
}

impl Measure {
    /// Of a trace.
    pub(crate) fn of(trace: &Trace, options: &CorpusOptions) -> Self {
        Self { peak: peak(trace, options.max_osl), longest_input: longest_input(trace) }
    }

    /// Whether the filters let the trace pass.
    pub(crate) fn eligible(self, options: &CorpusOptions) -> bool {
        self.peak <= options.max_context_length.unwrap_or(u64::MAX) && self.input_fits(options)
    }

    /// Whether no input is too long.
    pub(crate) fn input_fits(self, options: &CorpusOptions) -> bool {
        self.longest_input <= options.max_isl.unwrap_or(u64::MAX)
    }
}
