//! What shapes the templates: selection, reconstruction knobs, delay mode. Plain data; the plan fills it.

use crate::error::CorpusError;

/// How recorded times become delays (`corpus.md` §7.2–7.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DelayMode {
    /// From the recorded end of the previous turn to the recorded start of this one.
    #[default]
    EndToStart,
    /// The recorded think time where there is one, else end to start.
    ThinkTime,
    /// No start, delay or duration at all.
    None,
}

/// What to do with keys that the schema does not know (`corpus.md` §2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownKeys {
    /// Refuse the trace and name them.
    #[default]
    Error,
    /// Leave them out and name them in the load report.
    Ignore,
}

/// Knobs of the reconstruction (`corpus.md` §13), named as their variables without `AIPERF_DATASET_WEKA_`.
#[derive(Clone, Debug, PartialEq)]
pub struct WekaKnobs {
    /// Threads that reconstruct, 0–256; 0 is automatic. The result does not depend on it.
    pub parallel_workers: usize,
    /// Traces from which on work is spread over threads, at least 1. The result does not depend on it.
    pub parallel_threshold: usize,
    /// Split lists that hold several agents' requests into chains.
    pub split_flattened_agents: bool,
    /// Send paired tool results with role `tool`.
    pub tool_shaped_messages: bool,
    /// Gap above which a seam needs `seam_min_overlap_ratio`, seconds, at least 0.
    pub seam_max_gap_seconds: f64,
    /// Share of the tail that must be common across a long gap, 0–1.
    pub seam_min_overlap_ratio: f64,
    /// Requests an auxiliary may have; 0 switches the class off.
    pub aux_max_requests: usize,
    /// Share of the main chain's peak input below which a chain is an auxiliary, at least 0.
    pub aux_isl_ratio: f64,
    /// Input tokens below which a chain is an auxiliary in any case.
    pub aux_isl_floor: u64,
    /// A chain on another model than the main chain's is an auxiliary.
    pub aux_cross_model: bool,
    /// Output tokens below which a single large request is a reduction; 0 switches the class off.
    pub aux_reduction_osl_max: u64,
    /// Input to output ratio above which it is one, at least 0.
    pub aux_reduction_ratio: f64,
    /// Members a worker group needs; 0 switches groups off.
    pub worker_group_min: usize,
}

impl Default for WekaKnobs {
    fn default() -> Self {
        Self {
            parallel_workers: 0,
            parallel_threshold: 8,
            split_flattened_agents: true,
            tool_shaped_messages: false,
            seam_max_gap_seconds: 3600.0,
            seam_min_overlap_ratio: 0.5,
            aux_max_requests: 1,
            aux_isl_ratio: 0.10,
            aux_isl_floor: 16_384,
            aux_cross_model: true,
            aux_reduction_osl_max: 4_000,
            aux_reduction_ratio: 20.0,
            worker_group_min: 3,
        }
    }
}

/// Everything but the traces themselves that shapes the templates.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusOptions {
    /// Drop traces with a greater peak context, tokens (`--max-context-length`).
    pub max_context_length: Option<u64>,
    /// Keep the first so many eligible traces (`--num-dataset-entries`), at least 1.
    pub num_dataset_entries: Option<usize>,
    /// Drop traces with a request of more input tokens (`--synthesis-max-isl`).
    pub max_isl: Option<u64>,
    /// Cap the output of main and flat-chain turns, tokens (`--synthesis-max-osl`).
    pub max_osl: Option<u64>,
    /// Number of configured models; 0 sends recorded names.
    pub models: usize,
    /// Where delays come from.
    pub delays: DelayMode,
    /// Upper bound of every delay, seconds (`--inter-turn-delay-cap-seconds`).
    pub delay_cap_seconds: Option<f64>,
    /// What to do with unknown keys.
    pub unknown_keys: UnknownKeys,
    /// Reconstruction knobs.
    pub weka: WekaKnobs,
}

impl Default for CorpusOptions {
    fn default() -> Self {
        Self {
            max_context_length: None,
            num_dataset_entries: None,
            max_isl: None,
            max_osl: None,
            models: 1,
            delays: DelayMode::default(),
            delay_cap_seconds: None,
            unknown_keys: UnknownKeys::default(),
            weka: WekaKnobs::default(),
        }
    }
}

impl CorpusOptions {
    /// Checks every range (`corpus.md` §13); the first value out of range is the error.
    pub fn validate(&self) -> Result<(), CorpusError> {
        let knobs = &self.weka;
        let at_least_zero = |value: f64| value.is_finite() && value >= 0.0;
        let checks = [
            ("corpus.weka.parallel_workers", "an integer from 0 to 256", knobs.parallel_workers <= 256),
            ("corpus.weka.parallel_threshold", "an integer of at least 1", knobs.parallel_threshold >= 1),
            (
                "corpus.weka.seam_max_gap_seconds",
                "a finite number of at least 0",
                at_least_zero(knobs.seam_max_gap_seconds),
            ),
            (
                "corpus.weka.seam_min_overlap_ratio",
                "a number from 0 to 1",
                (0.0..=1.0).contains(&knobs.seam_min_overlap_ratio),
            ),
            ("corpus.weka.aux_isl_ratio", "a finite number of at least 0", at_least_zero(knobs.aux_isl_ratio)),
            (
                "corpus.weka.aux_reduction_ratio",
                "a finite number of at least 0",
                at_least_zero(knobs.aux_reduction_ratio),
            ),
            ("the dataset entries option", "at least 1", self.num_dataset_entries != Some(0)),
            (
                "the inter-turn delay cap",
                "a finite number of seconds of at least 0",
                self.delay_cap_seconds.is_none_or(at_least_zero),
            ),
        ];
        match checks.into_iter().find(|(_, _, good)| !good) {
            Some((option, expected, _)) => Err(CorpusError::BadOption { option, expected }),
            None => Ok(()),
        }
    }
}
