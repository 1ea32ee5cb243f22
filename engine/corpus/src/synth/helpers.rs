//! Helpers: subagents as entries of their own, workers and side jobs as plain rows.

use super::draws::Dice;
use super::format::{AgentJson, RequestJson, RowJson};
use super::session::{Cause, Context, Session, millis};
use super::tables;

const KINDS: [&str; 3] = ["Explore", "general-purpose", "Plan"];

impl Session<'_> {
    /// A throw-away call before the session proper, on a context of its own; gives when the session begins.
    pub(super) fn preamble(&mut self) -> f64 {
        let end = self.side_job(0.0);
        end + self.span(0.2).max(0.002)
    }

    /// One small request that shares nothing with the session: a title, a topic, a check of a command.
    fn side_job(&mut self, t: f64) -> f64 {
        let mut context = Context::default();
        let tokens = u64::from(self.dice.between(180, 1200)).min(self.options.max_context / 8);
        self.extend(&mut context, tokens);
        let output = u64::from(self.dice.between(4, 40));
        let request = self.request(t, &context, self.small, output, (Cause::User, true));
        let end = request.t + request.api_time;
        self.rows.push(RowJson::Request(request));
        end
    }

    /// What starts behind a main turn that ended at `end`; gives when the main agent may go on.
    pub(super) fn helpers_after(&mut self, end: f64, context: &Context) -> f64 {
        let often = self.options.helpers;
        let start = end + self.span(0.05).max(0.002);
        if self.dice.chance(0.006 * often) {
            self.side_job(start);
        }
        if self.dice.chance(0.011 * often) {
            let count = parallel(&mut self.dice).min(self.options.fan_out);
            let background = self.dice.chance(0.4);
            let ends = (0..count).map(|_| self.agent(start)).fold(end, f64::max);
            if !background {
                return ends;
            }
        } else if self.dice.chance(0.012 * often) {
            self.fork(start, context);
        } else if self.dice.chance(0.014 * often) {
            let group = self.dice.chance(0.15);
            let count = if group { self.dice.between(3, 5).min(self.options.fan_out) } else { 1 };
            let ends = (0..count).map(|number| self.worker(start, number, context)).fold(end, f64::max);
            if group || self.dice.chance(0.6) {
                return ends;
            }
        }
        end
    }

    /// A row of requests that each extend the one before.
    fn chain(&mut self, start: f64, mut context: Context, model: &'static str, turns: u32) -> Vec<RequestJson> {
        // Helpers are not compacted: they end before their window, which is seldom the largest, is full.
        let full = self.options.max_context.min(200_000) * 3 / 4;
        let mut t = start;
        let mut rows = Vec::new();
        for turn in 0..turns {
            let last = turn + 1 == turns;
            let cause = if turn == 0 { Cause::User } else { Cause::Tool };
            let output = self.dice.count(tables::OUTPUT);
            let request = self.request(t, &context, model, output, (cause, last));
            let added = request.output + self.dice.count(tables::RESULT);
            let pause = self.dice.of(tables::TOOL_PAUSE);
            t = request.t + request.api_time + self.span(pause).max(0.002);
            rows.push(request);
            if self.size(&context) + added > full {
                break;
            }
            self.extend(&mut context, added);
        }
        rows
    }

    /// A subagent's entry; gives when it is done.
    fn agent(&mut self, start: f64) -> f64 {
        let mut context = if let Some(prefix) = &self.agent_prefix {
            prefix.clone()
        } else {
            let mut prefix = Context::default();
            self.extend(&mut prefix, (self.prefix.0 + self.prefix.1) * 3 / 5);
            prefix.tail = 0;
            self.agent_prefix = Some(prefix.clone());
            prefix
        };
        let own_prefix = context.clone();
        let task = self.dice.count(tables::TASK).min(self.options.max_context / 8);
        self.extend(&mut context, task);
        let turns = self.dice.count(tables::AGENT_TURNS) as u32;
        let wait = self.dice.of(&[(0.0, 0.0), (1.0, 1.5)]);
        let start = millis(start + self.span(wait));
        let model = if self.dice.chance(0.5) { self.small } else { self.model };
        let mut requests = self.chain(start, context, model, turns);
        let declared = if self.options.shape == super::Shape::Tails {
            let tokens = self.size(&own_prefix);
            (tokens - tokens / 5, tokens / 5)
        } else {
            (0, 0)
        };
        if requests.len() > 4 && self.dice.chance(0.15) {
            self.nested(&mut requests, &own_prefix, model);
        }
        let end = requests.iter().map(|request| request.t + request.api_time).fold(start, f64::max);
        self.agents += 1;
        let entry = AgentJson {
            t: start,
            kind: "subagent",
            agent_id: format!("agent_{:03}", self.agents),
            subagent_type: KINDS[self.dice.between(0, 2) as usize],
            duration_ms: ((end - start) * 1000.0).round() as u64,
            total_tokens: requests.iter().map(|request| request.input + request.output).sum(),
            tool_use_count: None,
            status: "completed",
            requests,
            models: vec![model],
            tool_tokens: declared.0,
            system_tokens: declared.1,
        };
        self.rows.push(RowJson::Agent(entry));
        end
    }

    /// A helper of a subagent, recorded among its requests: it begins behind one of them and before the next ends.
    fn nested(&mut self, requests: &mut Vec<RequestJson>, prefix: &Context, model: &'static str) {
        let behind = &requests[requests.len() / 2];
        let start = millis(behind.t + behind.api_time + 0.001);
        let mut context = prefix.clone();
        let task = self.dice.count(tables::TASK).min(self.options.max_context / 8);
        self.extend(&mut context, task);
        let turns = self.dice.between(2, 5);
        let rows = self.chain(start, context, model, turns);
        requests.extend(rows);
        requests.sort_by(|a, b| a.t.total_cmp(&b.t));
    }

    /// A helper that goes on from the main agent's whole context, beside it: plain rows too, and as large.
    fn fork(&mut self, start: f64, main: &Context) {
        let mut context = self.cut(main, self.size(main));
        let task = self.dice.count(tables::TASK).min(self.options.max_context / 8);
        if self.size(&context) + task > self.options.max_context * 3 / 4 {
            return;
        }
        self.extend(&mut context, task);
        let turns = self.dice.count(tables::FORK_TURNS) as u32;
        let rows = self.chain(millis(start), context, self.model, turns);
        self.rows.extend(rows.into_iter().map(RowJson::Request));
    }

    /// A helper recorded as plain rows, on the main agent's prefix; gives when it is done.
    fn worker(&mut self, start: f64, number: u32, main: &Context) -> f64 {
        let mut context = self.cut(main, self.prefix.0 + self.prefix.1);
        let task = self.dice.count(tables::TASK).min(self.options.max_context / 8);
        self.extend(&mut context, task);
        let turns = self.dice.count(tables::WORKER_TURNS) as u32;
        let start = millis(start + self.span(0.1 * f64::from(number)));
        let rows = self.chain(start, context, self.model, turns);
        let end = rows.iter().map(|request| request.t + request.api_time).fold(start, f64::max);
        self.rows.extend(rows.into_iter().map(RowJson::Request));
        end
    }
}

/// Subagents that start together: mostly one.
fn parallel(dice: &mut Dice) -> u32 {
    if dice.chance(0.62) { 1 } else { dice.between(2, 4) }
}
