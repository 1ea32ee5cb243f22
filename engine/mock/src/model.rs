//! The machine that is simulated: prefix cache, prefill, queue. A pure state machine: an event and its instant go in,
//! effects come out; the HTTP server and the transport in virtual time both follow it.

use std::collections::{BTreeMap, VecDeque};

use agentx_types::Nanos;

use crate::cache::PrefixCache;
use crate::options::MockOptions;

/// What a request asks of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Prompt tokens.
    pub prompt: u64,
    /// Keys of the prompt's whole blocks; each stands for the prompt up to the end of its block.
    pub blocks: Vec<u64>,
    /// Tokens of the answer.
    pub output: u32,
}

/// What happens to the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelEvent {
    /// A request came in.
    Arrived {
        /// Its number, unique.
        id: u64,
        /// What it asks for.
        ask: Ask,
    },
    /// A request is over or was cut off, waiting or running.
    Ended {
        /// Its number.
        id: u64,
    },
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A request was let in.
    Admitted {
        /// Its number.
        id: u64,
        /// When its prefill began.
        at: Nanos,
        /// When its first token is due.
        first: Nanos,
        /// Prompt tokens found in the prefix cache.
        cached: u64,
    },
}

/// Totals, and what goes on now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelStats {
    /// Requests that run.
    pub running: u64,
    /// Requests that wait.
    pub waiting: u64,
    /// Prompt tokens let in.
    pub prompt_tokens: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub cache_queries: u64,
    /// Those found.
    pub cache_hits: u64,
    /// Share of the cache's blocks that running requests hold, 0 to 1; 0 without a cache.
    pub cache_usage: f64,
}

/// The state of the machine.
#[derive(Debug)]
pub struct ServerModel {
    base: Nanos,
    /// Nanoseconds that a prompt token takes.
    prefill: f64,
    gap: Nanos,
    gap_per_other: Nanos,
    max_running: usize,
    block_size: u64,
    cache_blocks: u64,
    cache: PrefixCache,
    /// Blocks held by each running request.
    running: BTreeMap<u64, u64>,
    held: u64,
    waiting: VecDeque<(u64, Ask)>,
    stats: ModelStats,
}

impl ServerModel {
    /// An idle machine with a cold cache.
    pub fn new(options: &MockOptions) -> Self {
        let cache_blocks = options.cache_blocks.unwrap_or(0);
        Self {
            base: Nanos::from_millis(options.ttft_ms),
            prefill: options.prefill_tps.map_or(0.0, |speed| 1e9 / speed),
            gap: Nanos::from_millis(options.itl_ms),
            gap_per_other: Nanos::from_millis(options.itl_batch_ms),
            max_running: options.max_running.map_or(usize::MAX, |limit| limit as usize),
            block_size: u64::from(options.block_size.max(1)),
            cache_blocks,
            cache: PrefixCache::new(cache_blocks),
            running: BTreeMap::new(),
            held: 0,
            waiting: VecDeque::new(),
            stats: ModelStats::default(),
        }
    }

    /// Takes an event in.
    pub fn on_event(&mut self, event: ModelEvent, now: Nanos) -> Vec<Effect> {
        match event {
            ModelEvent::Arrived { id, ask } => self.waiting.push_back((id, ask)),
            ModelEvent::Ended { id } => match self.running.remove(&id) {
                Some(held) => self.held -= held,
                None => self.waiting.retain(|(other, _)| *other != id),
            },
        }
        let mut effects = Vec::new();
        while self.running.len() < self.max_running
            && let Some((id, ask)) = self.waiting.pop_front()
        {
            effects.push(self.admit(id, &ask, now));
        }
        effects
    }

    fn admit(&mut self, id: u64, ask: &Ask, now: Nanos) -> Effect {
        // The last token is always computed: without it there is nothing to continue from.
        let usable = ask.blocks.len().min((ask.prompt.saturating_sub(1) / self.block_size) as usize);
        let cached = self.cache.hits(&ask.blocks[..usable]) as u64 * self.block_size;
        self.cache.use_blocks(&ask.blocks);
        let held = (ask.prompt + u64::from(ask.output)).div_ceil(self.block_size);
        self.held += held;
        self.running.insert(id, held);
        self.stats.prompt_tokens += ask.prompt;
        if self.cache_blocks > 0 {
            self.stats.cache_queries += ask.prompt;
            self.stats.cache_hits += cached;
        }
        let prefill = Nanos(((ask.prompt - cached) as f64 * self.prefill) as i64);
        let first = now.saturating_add(self.base).saturating_add(prefill);
        Effect::Admitted { id, at: now, first, cached }
    }

    /// From one token to the next, as busy as the machine is now.
    pub fn gap(&self) -> Nanos {
        let others = self.running.len().saturating_sub(1) as i64;
        self.gap.saturating_add(Nanos(self.gap_per_other.0.saturating_mul(others)))
    }

    /// Whether [`ServerModel::gap`] depends on how many requests run.
    pub fn gap_varies(&self) -> bool {
        self.gap_per_other > Nanos(0)
    }

    /// Totals, and what goes on now.
    pub fn stats(&self) -> ModelStats {
        let capacity = self.cache_blocks as f64;
        ModelStats {
            running: self.running.len() as u64,
            waiting: self.waiting.len() as u64,
            cache_usage: if self.cache_blocks == 0 { 0.0 } else { (self.held as f64 / capacity).min(1.0) },
            ..self.stats
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(model: &mut ServerModel, id: u64, prompt: u64, blocks: &[u64], now: i64) -> Vec<Effect> {
        model.on_event(ModelEvent::Arrived { id, ask: Ask { prompt, blocks: blocks.to_vec(), output: 10 } }, Nanos(now))
    }

    fn cached(effects: &[Effect]) -> Vec<(u64, u64)> {
        effects.iter().map(|Effect::Admitted { id, cached, .. }| (*id, *cached)).collect()
    }

    fn options() -> MockOptions {
        MockOptions { ttft_ms: 20.0, prefill_tps: Some(10_000.0), block_size: 100, ..MockOptions::default() }
    }

    #[test]
    fn the_first_token_waits_for_the_prefill_of_what_is_not_cached() {
        let mut model = ServerModel::new(&MockOptions { cache_blocks: Some(100), ..options() });
        let cold = arrive(&mut model, 1, 1000, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 5);
        assert_eq!(cold, [Effect::Admitted { id: 1, at: Nanos(5), first: Nanos(120_000_005), cached: 0 }]);
        // The same prompt: its last token is computed again, and with it its block.
        let warm = arrive(&mut model, 2, 1000, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0);
        assert_eq!(warm, [Effect::Admitted { id: 2, at: Nanos(0), first: Nanos(30_000_000), cached: 900 }]);
        assert_eq!(cached(&arrive(&mut model, 3, 1050, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0)), [(3, 1000)]);
        assert_eq!(cached(&arrive(&mut model, 4, 350, &[1, 2, 99], 0)), [(4, 200)]);
        let stats = model.stats();
        assert_eq!((stats.prompt_tokens, stats.cache_queries, stats.cache_hits), (3400, 3400, 2100));
        assert_eq!((stats.running, stats.cache_usage), (4, 0.38));
    }

    #[test]
    fn a_full_machine_lets_in_by_order_of_arrival_and_forgets_who_left() {
        let mut model = ServerModel::new(&MockOptions { max_running: Some(2), ..options() });
        for id in 1..=5 {
            assert_eq!(arrive(&mut model, id, 100, &[], 0).len(), usize::from(id <= 2));
        }
        assert_eq!((model.stats().running, model.stats().waiting), (2, 3));
        assert_eq!(model.on_event(ModelEvent::Ended { id: 3 }, Nanos(1)), []);
        let next = model.on_event(ModelEvent::Ended { id: 2 }, Nanos(7));
        assert_eq!(next, [Effect::Admitted { id: 4, at: Nanos(7), first: Nanos(30_000_007), cached: 0 }]);
        assert_eq!(cached(&model.on_event(ModelEvent::Ended { id: 1 }, Nanos(8))), [(5, 0)]);
        assert_eq!(model.on_event(ModelEvent::Ended { id: 4 }, Nanos(9)), []);
        assert_eq!(model.stats().waiting, 0);
    }

    #[test]
    fn tokens_slow_down_with_the_batch() {
        let mut model = ServerModel::new(&MockOptions { itl_ms: 10.0, itl_batch_ms: 0.5, ..options() });
        for id in 0..5 {
            arrive(&mut model, id, 1, &[], 0);
        }
        assert_eq!(model.gap(), Nanos::from_millis(12.0));
        model.on_event(ModelEvent::Ended { id: 0 }, Nanos(0));
        assert_eq!((model.gap(), model.gap_varies()), (Nanos::from_millis(11.5), true));
    }
}
