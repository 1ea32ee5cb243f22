//! How the simulated server spends time. Prefix cache and queue belong here: a request is admitted once and gets its
//! timetable; everything else only follows it.

use agentx_types::Nanos;

use crate::options::MockOptions;

/// When the tokens of one answer are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timetable {
    first: Nanos,
    gap: Nanos,
}

impl Timetable {
    /// When token `index` is due. Counted from the first token each time, so that no lateness adds up.
    pub(crate) fn due(&self, index: u32) -> Nanos {
        Nanos(self.first.0.saturating_add(self.gap.0.saturating_mul(i64::from(index))))
    }
}

/// A request as the model sees it once it is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// Prompt tokens found in the prefix cache.
    pub(crate) cached: u64,
    pub(crate) timetable: Timetable,
}

/// The machine that is simulated.
pub(crate) struct Model {
    ttft: Nanos,
    gap: Nanos,
    /// Nanoseconds a prompt token takes.
    prefill: f64,
}

impl Model {
    pub(crate) fn new(options: &MockOptions) -> Self {
        Self {
            ttft: Nanos::from_millis(options.ttft_ms),
            gap: Nanos::from_millis(options.itl_ms),
            prefill: options.prefill_tps.map_or(0.0, |speed| 1e9 / speed),
        }
    }

    /// Lets in a request of `prompt` tokens that arrived at `arrival`.
    pub(crate) fn admit(&self, arrival: Nanos, prompt: u64) -> Admission {
        let cached = 0;
        let prefill = Nanos(((prompt - cached) as f64 * self.prefill) as i64);
        let first = arrival.saturating_add(self.ttft).saturating_add(prefill);
        Admission { cached, timetable: Timetable { first, gap: self.gap } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_token_waits_for_prefill_and_the_rest_keep_pace() {
        let options = MockOptions { ttft_ms: 20.0, itl_ms: 0.7, prefill_tps: Some(10_000.0), ..MockOptions::default() };
        let timetable = Model::new(&options).admit(Nanos(5), 1000).timetable;
        assert_eq!(timetable.due(0), Nanos(5 + 120_000_000));
        assert_eq!(timetable.due(1000), Nanos(5 + 820_000_000));
    }
}
