//! Answers in progress, in virtual time: every token at its very instant.

use std::collections::BTreeMap;

use agentx_types::Nanos;

use crate::model::{Ask, Effect, ModelEvent, ServerModel};
use crate::options::MockOptions;

/// An answer that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// When the request was let in.
    pub(super) admitted: Nanos,
    /// Prompt tokens found in the prefix cache.
    pub(super) cached: u64,
    /// When each token came.
    pub(super) times: Vec<Nanos>,
}

struct Live {
    answered: Answered,
    output: u32,
    /// When the next token is due, if nothing changes until then.
    due: Nanos,
}

/// The machine and what it is saying.
pub(super) struct Streams {
    model: ServerModel,
    live: BTreeMap<u64, Live>,
    output: BTreeMap<u64, u32>,
    /// Let in since it was last asked, and when the first token of each comes.
    admitted: Vec<(u64, Nanos)>,
}

impl Live {
    fn left(&self) -> i64 {
        (self.output as usize).saturating_sub(self.answered.times.len()) as i64
    }

    /// When the last token is due at this gap.
    fn end(&self, gap: Nanos) -> Nanos {
        self.due.saturating_add(Nanos(gap.0.saturating_mul((self.left() - 1).max(0))))
    }

    /// Says what is due up to `now`, the machine having been as it is since the last token.
    fn advance(&mut self, now: Nanos, gap: Nanos) {
        while self.left() > 0 && self.due <= now {
            self.answered.times.push(self.due);
            self.due = self.due.saturating_add(gap);
        }
    }
}

impl Streams {
    pub(super) fn new(options: &MockOptions) -> Self {
        Self { model: ServerModel::new(options), live: BTreeMap::new(), output: BTreeMap::new(), admitted: Vec::new() }
    }

    /// A request comes in.
    pub(super) fn arrive(&mut self, id: u64, ask: Ask, now: Nanos) {
        self.output.insert(id, ask.output);
        self.change(ModelEvent::Arrived { id, ask }, now);
    }

    /// A request is cut off, waiting or running.
    pub(super) fn cut_off(&mut self, id: u64, now: Nanos) {
        self.output.remove(&id);
        self.catch_up(now);
        self.live.remove(&id);
        self.change(ModelEvent::Ended { id }, now);
    }

    /// The requests that were let in since the last call, and when the first token of each comes.
    pub(super) fn take_admitted(&mut self) -> Vec<(u64, Nanos)> {
        std::mem::take(&mut self.admitted)
    }

    /// When the next answer is complete, if nothing changes until then.
    pub(super) fn next_end(&self) -> Option<Nanos> {
        let gap = self.model.gap();
        self.live.values().map(|live| live.end(gap)).min()
    }

    /// The answers that are complete at `now`, in order of arrival.
    pub(super) fn advance(&mut self, now: Nanos) -> Vec<(u64, Answered)> {
        let gap = self.model.gap();
        let ended: Vec<u64> = self.live.iter().filter(|(_, live)| live.end(gap) <= now).map(|(id, _)| *id).collect();
        self.catch_up(now);
        let mut answers = Vec::with_capacity(ended.len());
        for id in ended {
            if let Some(mut live) = self.live.remove(&id) {
                live.advance(now, gap);
                answers.push((id, live.answered));
                self.change(ModelEvent::Ended { id }, now);
            }
        }
        answers
    }

    /// Before the pace changes, everything due is said at the old one. At a constant pace that can wait.
    fn catch_up(&mut self, now: Nanos) {
        if self.model.gap_varies() {
            let gap = self.model.gap();
            self.live.values_mut().for_each(|live| live.advance(now, gap));
        }
    }

    fn change(&mut self, event: ModelEvent, now: Nanos) {
        self.catch_up(now);
        for Effect::Admitted { id, at, first, cached } in self.model.on_event(event, now) {
            let Some(output) = self.output.remove(&id) else { continue };
            let answered = Answered { admitted: at, cached, times: Vec::with_capacity(output as usize) };
            self.live.insert(id, Live { answered, output, due: first });
            self.admitted.push((id, first));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn ask(output: u32) -> Ask {
        Ask { prompt: 10, blocks: Vec::new(), output }
    }

    /// Runs to the end: (request, its tokens in ms).
    fn run(streams: &mut Streams) -> Vec<(u64, Vec<f64>)> {
        let mut all = Vec::new();
        while let Some(end) = streams.next_end() {
            let answers = streams.advance(end);
            all.extend(
                answers
                    .into_iter()
                    .map(|(id, answered)| (id, answered.times.iter().map(|time| time.as_millis()).collect())),
            );
        }
        all
    }

    #[test]
    fn tokens_come_at_their_pace_and_who_waits_starts_when_a_place_is_free() {
        let options = MockOptions { ttft_ms: 20.0, itl_ms: 5.0, max_running: Some(1), ..MockOptions::default() };
        let mut streams = Streams::new(&options);
        streams.arrive(1, ask(3), ms(0.0));
        streams.arrive(2, ask(2), ms(1.0));
        assert_eq!(run(&mut streams), [(1, vec![20.0, 25.0, 30.0]), (2, vec![50.0, 55.0])]);
    }

    #[test]
    fn the_pace_follows_the_batch_token_by_token() {
        let options = MockOptions { ttft_ms: 10.0, itl_ms: 10.0, itl_batch_ms: 5.0, ..MockOptions::default() };
        let mut streams = Streams::new(&options);
        streams.arrive(1, ask(5), ms(0.0));
        assert_eq!(streams.advance(ms(10.0)), []);
        streams.arrive(2, ask(2), ms(12.0));
        // The gap that had begun stays 10; those that begin with two running are 15.
        assert_eq!(run(&mut streams), [(2, vec![22.0, 37.0]), (1, vec![10.0, 20.0, 35.0, 50.0, 60.0])]);
    }

    #[test]
    fn who_is_cut_off_makes_room() {
        let options = MockOptions { ttft_ms: 1.0, itl_ms: 1.0, max_running: Some(1), ..MockOptions::default() };
        let mut streams = Streams::new(&options);
        (1..=3).for_each(|id| streams.arrive(id, ask(1), ms(0.0)));
        streams.cut_off(2, ms(0.2));
        streams.cut_off(1, ms(0.5));
        assert_eq!(run(&mut streams), [(3, vec![1.5])]);
        assert!(streams.output.is_empty());
    }
}
