//! What a load saw, in numbers.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::build::Notes;
use crate::chains::EPS;
use crate::error::CorpusError;
use crate::options::CorpusOptions;
use crate::read::{Entry, IgnoredKeys, Request, Trace};
use crate::select::Measure;

/// What a load saw. Everything below `loaded` counts the loaded traces only.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LoadReport {
    /// Traces read before the load was complete.
    pub scanned: usize,
    /// Traces that a filter dropped.
    pub rejected: usize,
    /// Traces that every filter let pass.
    pub eligible: usize,
    /// Traces that became templates.
    pub loaded: usize,
    /// Greatest peak context of the scanned traces, tokens.
    pub largest_peak: Option<u64>,
    /// Smallest peak context of the scanned traces, tokens.
    pub smallest_peak: Option<u64>,
    /// Smallest peak context of those whose inputs are short enough, tokens.
    #[serde(skip)]
    pub(crate) smallest_admissible_peak: Option<u64>,
    /// Smallest of the scanned traces' longest inputs, tokens.
    #[serde(skip)]
    pub(crate) smallest_longest_input: Option<u64>,
    /// Requests, those of dropped entries included.
    pub requests: usize,
    /// Requests with a recorded output of 0 tokens; they ask for 1.
    pub zero_outputs: usize,
    /// Requests without `api_time`; their duration counts as 0.
    pub missing_api_time: usize,
    /// Requests whose `api_time` is null; their duration counts as 0.
    pub null_api_time: usize,
    /// Neighbours in a recorded list of which the later one starts before the earlier one ended.
    pub out_of_order_pairs: usize,
    /// Subagent entries whose requests count from their marker.
    pub relative_subagents: usize,
    /// Subagent entries whose requests count from the start of the trace.
    pub absolute_subagents: usize,
    /// Subagent entries that no main turn comes before, as `<trace id>/<agent id>`; they are not replayed.
    pub dropped_subagents: Vec<String>,
    /// Keys outside the schema that were let through, with their counts.
    pub ignored_keys: BTreeMap<String, u64>,
    /// Delays that the cap shortened.
    pub delays_capped: usize,
    /// Delays of more than 60 s, before the cap.
    pub delays_over_60s: usize,
    /// Greatest delay before the cap, ms.
    pub largest_delay_ms: f64,
}

/// What one trace adds to the report, taken before it is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    requests: usize,
    zero_outputs: usize,
    missing_api_time: usize,
    null_api_time: usize,
    out_of_order_pairs: usize,
}

impl Facts {
    /// Of a trace.
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut facts = Self::default();
        let top_level: Vec<&Request> = trace
            .entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Request(request) => Some(request),
                Entry::Subagent(_) => None,
            })
            .collect();
        facts.add_list(&top_level);
        for entry in &trace.entries {
            if let Entry::Subagent(subagent) = entry {
                facts.add_list(&subagent.requests.iter().collect::<Vec<_>>());
            }
        }
        facts
    }

    fn add_list(&mut self, list: &[&Request]) {
        self.requests += list.len();
        for request in list {
            self.zero_outputs += usize::from(request.output == 0);
            self.null_api_time += usize::from(request.api_time_null);
            self.missing_api_time += usize::from(request.api_time.is_none() && !request.api_time_null);
        }
        let early = |pair: &&[&Request]| pair[1].t + EPS < pair[0].t + pair[0].duration();
        self.out_of_order_pairs += list.windows(2).filter(early).count();
    }
}

impl LoadReport {
    /// Counts a scanned trace; says whether the filters let it pass.
    pub(crate) fn scan(&mut self, measure: Measure, options: &CorpusOptions) -> bool {
        let lower = |known: Option<u64>, value: u64| Some(known.map_or(value, |known| known.min(value)));
        self.largest_peak = self.largest_peak.max(Some(measure.peak));
        self.smallest_peak = lower(self.smallest_peak, measure.peak);
        self.smallest_longest_input = lower(self.smallest_longest_input, measure.longest_input);
        if measure.input_fits(options) {
            self.smallest_admissible_peak = lower(self.smallest_admissible_peak, measure.peak);
        }
        let eligible = measure.eligible(options);
        *(if eligible { &mut self.eligible } else { &mut self.rejected }) += 1;
        eligible
    }

    /// Adds a loaded trace.
    pub(crate) fn add(&mut self, id: &str, facts: &Facts, notes: &Notes, ignored: &IgnoredKeys) {
        self.loaded += 1;
        self.requests += facts.requests;
        self.zero_outputs += facts.zero_outputs;
        self.missing_api_time += facts.missing_api_time;
        self.null_api_time += facts.null_api_time;
        self.out_of_order_pairs += facts.out_of_order_pairs;
        self.relative_subagents += notes.relative;
        self.absolute_subagents += notes.absolute;
        self.dropped_subagents.extend(notes.dropped.iter().map(|agent| format!("{id}/{agent}")));
        for (key, count) in ignored {
            *self.ignored_keys.entry(key.clone()).or_default() += count;
        }
        self.delays_capped += notes.delays_capped;
        self.delays_over_60s += notes.long_delays;
        self.largest_delay_ms = self.largest_delay_ms.max(notes.largest_delay_ms);
    }

    /// An error if nothing was eligible (`corpus.md` §3.1.5).
    pub fn require_eligible(&self, options: &CorpusOptions) -> Result<(), CorpusError> {
        if self.eligible > 0 {
            return Ok(());
        }
        let Some(smallest_peak) = self.smallest_peak else { return Err(CorpusError::EmptyPool) };
        let advice = match (self.smallest_admissible_peak, self.smallest_longest_input, options.max_isl) {
            (None, Some(input), Some(limit)) => format!(
                "every trace has an input longer than --synthesis-max-isl {limit}; the least limit that admits a trace is {input}"
            ),
            (least, ..) => format!(
                "the least --max-context-length that admits a trace is {} (now {})",
                least.unwrap_or(smallest_peak),
                options.max_context_length.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string()),
            ),
        };
        Err(CorpusError::NothingEligible { scanned: self.scanned, smallest_peak, advice })
    }

    /// Logs what is worth a line, once.
    pub(crate) fn log(&self, options: &CorpusOptions) {
        tracing::info!("{self}");
        if !self.dropped_subagents.is_empty() {
            tracing::info!(subagents = ?self.dropped_subagents, "dropped: no main turn comes before them");
        }
        if !self.ignored_keys.is_empty() {
            tracing::warn!(keys = ?self.ignored_keys, "keys outside the schema were ignored");
        }
        let largest_s = self.largest_delay_ms.round() / 1000.0;
        if options.delay_cap_seconds.is_some() {
            tracing::info!(capped = self.delays_capped, largest_s, "delays were capped");
        } else if self.delays_over_60s > 0 {
            tracing::warn!(
                count = self.delays_over_60s,
                largest_s,
                "delays of more than 60 s are replayed as recorded"
            );
        }
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scanned, rejected, eligible, loaded, .. } = self;
        write!(f, "traces: {scanned} scanned, {rejected} rejected, {eligible} eligible, {loaded} loaded")?;
        match (self.largest_peak, self.smallest_peak) {
            (Some(largest), Some(smallest)) => write!(f, "; peak context {smallest} to {largest} tokens"),
            _ => Ok(()),
        }
    }
}
