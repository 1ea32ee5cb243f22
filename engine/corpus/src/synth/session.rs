//! One session: the main agent's turns, what happens between them, and the file that a recorder would have written.

use std::collections::BTreeMap;

use super::draws::Dice;
use super::format::{RequestJson, RowJson, TraceJson};
use super::options::{Shape, SynthOptions};
use super::tables;

/// Models of the sessions; the last one is small and does the side jobs.
const MODELS: [&str; 3] = ["synth-large", "synth-medium", "synth-small"];

/// The context of one stream: whole blocks, then tokens without an id.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    pub(super) ids: Vec<u64>,
    pub(super) tail: u64,
}

/// Why a request was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    User,
    Tool,
}

/// A session in the making.
pub(super) struct Session<'a> {
    pub(super) options: &'a SynthOptions,
    pub(super) dice: Dice,
    next_id: u64,
    pub(super) rows: Vec<RowJson>,
    /// Tokens of the tools and of the system prompt.
    pub(super) prefix: (u64, u64),
    pub(super) model: &'static str,
    pub(super) small: &'static str,
    pub(super) agents: u32,
    /// Ids of the subagents' own prefix.
    pub(super) agent_prefix: Option<Context>,
}

impl Session<'_> {
    pub(super) fn block_size(&self) -> u64 {
        u64::from(self.options.block_size)
    }

    /// A span of recorded time at the pace asked for, s.
    pub(super) fn span(&self, seconds: f64) -> f64 {
        seconds * self.options.pace
    }

    /// Appends new text of `tokens` tokens to a context. What was a partial block is part of a whole one then.
    pub(super) fn extend(&mut self, context: &mut Context, tokens: u64) {
        let size = self.block_size();
        let mut all = context.tail + tokens.max(1);
        if self.options.shape == Shape::Aligned {
            all = all.div_ceil(size) * size;
        }
        for _ in 0..all / size {
            context.ids.push(self.next_id);
            self.next_id += 1;
        }
        context.tail = all % size;
    }

    /// The first blocks of a context, without a tail.
    pub(super) fn cut(&self, context: &Context, tokens: u64) -> Context {
        let blocks = tokens.div_ceil(self.block_size()) as usize;
        Context { ids: context.ids[..blocks.min(context.ids.len())].to_vec(), tail: 0 }
    }

    pub(super) fn size(&self, context: &Context) -> u64 {
        context.ids.len() as u64 * self.block_size() + context.tail
    }

    /// Output tokens that fit behind a context.
    pub(super) fn fit(&self, context: &Context, output: u64) -> u64 {
        output.clamp(1, self.options.max_context.saturating_sub(self.size(context)).max(1))
    }

    /// A request that begins at `t`.
    pub(super) fn request(
        &mut self,
        t: f64,
        context: &Context,
        model: &'static str,
        output: u64,
        (cause, last): (Cause, bool),
    ) -> RequestJson {
        let output = self.fit(context, output);
        let api = self.dice.of(tables::FIRST_TOKEN) + self.dice.of(tables::TOKEN) * output as f64;
        let tells = self.options.shape == Shape::Tails;
        let (input_type, stop) =
            (if cause == Cause::Tool { "tool_result" } else { "text" }, if last { "end_turn" } else { "tool_use" });
        RequestJson {
            t: millis(t),
            kind: if self.dice.chance(0.9) { "s" } else { "n" },
            model,
            input: self.size(context),
            output,
            hash_ids: context.ids.clone(),
            input_types: tells.then_some([input_type]),
            output_types: tells.then_some([if last { "text" } else { "tool_use" }]),
            stop: tells.then_some(stop),
            api_time: millis(self.span(api)).max(0.001),
            think_time: None,
        }
    }
}

/// Makes trace `number`.
pub(super) fn trace(options: &SynthOptions, number: u32) -> TraceJson {
    let mut dice = Dice::new(options.seed, u64::from(number));
    let tools = dice.count(tables::TOOLS);
    let system = dice.count(tables::SYSTEM);
    // Small windows get a small prefix: a quarter at most.
    let shrink = (options.max_context as f64 / 4.0 / (tools + system) as f64).min(1.0);
    let prefix = ((tools as f64 * shrink) as u64, (system as f64 * shrink) as u64);
    let model = MODELS[usize::from(dice.chance(0.3))];
    let mut session = Session {
        options,
        dice,
        next_id: 0,
        rows: Vec::new(),
        prefix,
        model,
        small: MODELS[2],
        agents: 0,
        agent_prefix: None,
    };
    session.play();
    session.finish(number)
}

impl Session<'_> {
    fn play(&mut self) {
        let turns = (self.dice.of(tables::TURNS) * f64::from(self.options.turns)).round().max(2.0) as u32;
        // Most windows are of 200 k tokens, of which the last fifth is kept free.
        let large = self.dice.chance(0.15);
        let window = if large { self.options.max_context } else { 200_000 };
        let limit = window.min(self.options.max_context);
        let full = limit * 4 / 5 - self.dice.count(&[(0.0, 0.0), (1.0, limit as f64 * 0.05)]);

        let mut t = 0.0;
        let mut context = Context::default();
        // A declared prefix belongs to the first request of the file.
        if self.options.shape == Shape::Aligned && self.dice.chance(0.15) {
            t = self.preamble();
        }
        self.extend(&mut context, self.prefix.0 + self.prefix.1);
        let opening = if self.dice.chance(if large { 0.6 } else { 0.2 }) { tables::RESUMED } else { tables::OPENING };
        let room = full.saturating_sub(self.size(&context)).max(1);
        // A declared prefix must be covered by whole blocks.
        let tokens = self.dice.count(opening).min(room * 3 / 4).max(self.block_size());
        self.extend(&mut context, tokens);

        let mut cause = Cause::User;
        for turn in 0..turns {
            let last_turn = turn + 1 == turns;
            let ends = last_turn || self.dice.chance(0.17);
            let output = self.dice.count(tables::OUTPUT);
            let request = self.request(t, &context, self.model, output, (cause, ends));
            let (output, end) = (request.output, request.t + request.api_time);
            self.rows.push(RowJson::Request(request));
            if last_turn {
                break;
            }
            let back = if turn > 0 { self.helpers_after(end, &context) } else { end };
            let result = if ends { tables::TASK } else { tables::RESULT };
            let added = output + self.dice.count(result);
            (t, cause) = self.pause(back, ends);
            if self.size(&context) + added > full {
                t = self.compact(t, &mut context);
                cause = Cause::User;
            } else if ends && self.dice.chance(0.02) {
                // Taken back and asked anew.
                let keep = self.size(&context).saturating_sub(added).max(self.prefix.0 + self.prefix.1);
                context = self.cut(&context, keep);
                self.extend(&mut context, added);
            } else {
                self.extend(&mut context, added);
            }
        }
    }

    fn pause(&mut self, from: f64, ends: bool) -> (f64, Cause) {
        let (seconds, cause) = if !ends {
            (self.dice.of(tables::TOOL_PAUSE), Cause::Tool)
        } else if self.dice.chance(0.06) {
            (self.dice.of(tables::BREAK), Cause::User)
        } else {
            (self.dice.of(tables::THINK), Cause::User)
        };
        (from + self.span(seconds).max(0.002), cause)
    }

    /// Asks for a summary of the whole context, and goes on with that alone.
    fn compact(&mut self, t: f64, context: &mut Context) -> f64 {
        self.extend(context, 40);
        let summary = self.dice.count(tables::SUMMARY).min(self.options.max_context / 8);
        let request = self.request(t, context, self.model, summary, (Cause::User, true));
        let end = request.t + request.api_time;
        let kept = self.dice.count(tables::OPENING).min(self.options.max_context / 8);
        let mut next = self.cut(context, self.prefix.0 + self.prefix.1);
        self.extend(&mut next, request.output + kept);
        *context = next;
        self.rows.push(RowJson::Request(request));
        end + self.span(0.4).max(0.002)
    }

    /// Rows in the order of a recorder, ids numbered by first appearance, gaps between rows.
    fn finish(mut self, number: u32) -> TraceJson {
        self.rows.sort_by(|a, b| a.start().total_cmp(&b.start()));
        let mut names = BTreeMap::new();
        let mut models = Vec::new();
        let mut previous_end = None::<f64>;
        let relative = self.options.shape == Shape::Tails;
        for row in &mut self.rows {
            let marker = row.start();
            for request in row.requests() {
                if !models.contains(&request.model) {
                    models.push(request.model);
                }
                request.think_time = previous_end.map(|end| millis(request.t - end));
                previous_end = Some(request.t + request.api_time);
                for id in &mut request.hash_ids {
                    let next = names.len() as u64;
                    *id = *names.entry(*id).or_insert(next);
                }
            }
            if let (RowJson::Agent(agent), true) = (row, relative) {
                agent.requests.iter_mut().for_each(|request| request.t = millis(request.t - marker));
            }
        }
        let (tool_tokens, system_tokens) = if relative { self.prefix } else { (0, 0) };
        TraceJson {
            id: format!("synth_{}_{number:05}", self.options.seed),
            models,
            block_size: self.options.block_size,
            hash_id_scope: "local",
            tool_tokens,
            system_tokens,
            requests: self.rows,
        }
    }
}

/// Rounded to whole milliseconds.
pub(super) fn millis(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}
