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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::template::SessionTemplate;
    use crate::testing::{request, subagent, template_with, trace_json, with};

    fn growing(rows: &[Value]) -> Vec<Value> {
        let base = |turn: usize| request(10.0 * turn as f64, 1..turn as u64 + 3, 1.0);
        rows.iter().enumerate().map(|(turn, changes)| with(base(turn), changes.clone())).collect()
    }

    fn made(rows: &[Value], change: impl FnOnce(&mut CorpusOptions)) -> SessionTemplate {
        let mut options = CorpusOptions::default();
        change(&mut options);
        template_with(&trace_json(&growing(rows)), &options)
    }

    fn delays(rows: &[Value], change: impl FnOnce(&mut CorpusOptions)) -> Vec<Option<f64>> {
        made(rows, change).root().turns.iter().map(|turn| turn.delay_ms).collect()
    }

    #[test]
    fn delays_count_from_the_end_of_the_previous_turn() {
        for (first, second, expected) in [
            (json!({}), json!({}), 9_000.0),
            (json!({ "api_time": null }), json!({}), 10_000.0),
            // A negative time is subtracted as it is, though the turn's own duration is 0.
            (json!({ "api_time": -3.0 }), json!({}), 13_000.0),
            (json!({ "api_time": 10.0 }), json!({}), 0.0),
            (json!({ "api_time": 10.000_000_5 }), json!({}), 0.0),
        ] {
            assert_eq!(delays(&[first.clone(), second], |_| ()), [None, Some(expected)], "{first}");
        }
        let turns = made(&[json!({ "api_time": -3.0 }), json!({ "api_time": null })], |_| ());
        assert_eq!(turns.root().turns.iter().map(|turn| turn.api_ms).collect::<Vec<_>>(), [Some(0.0), None]);
    }

    #[test]
    fn think_time_is_used_where_it_was_recorded() {
        for (think, expected) in [(json!(2.5), 2_500.0), (json!(0), 0.0), (json!(-1.0), 0.0), (json!(null), 9_000.0)] {
            let rows = [json!({}), json!({ "think_time": think })];
            assert_eq!(delays(&rows, |options| options.delays = DelayMode::ThinkTime), [None, Some(expected)]);
            assert_eq!(delays(&rows, |_| ()), [None, Some(9_000.0)]);
            assert_eq!(made(&rows, |_| ()).root().turns[1].think_delay_ms, Some(expected));
        }
    }

    #[test]
    fn delays_are_capped_or_ignored() {
        let rows = [json!({}), json!({}), json!({ "t": 22.0 })];
        assert_eq!(
            delays(&rows, |options| options.delay_cap_seconds = Some(5.0)),
            [None, Some(5_000.0), Some(5_000.0)]
        );
        let none = made(&rows, |options| options.delays = DelayMode::None);
        for turn in &none.root().turns {
            let times = [turn.start_ms, turn.delay_ms, turn.think_delay_ms, turn.api_ms];
            assert_eq!(times, [None; 4]);
        }
        assert_eq!(none.bounds_ms(), None);
    }

    #[test]
    fn the_first_top_level_model_is_the_main_one_and_the_others_wrap() {
        let model = |entry: Value, name: &str| with(entry, json!({ "model": name }));
        let row = |turn: u64| request(10.0 * turn as f64, 1..turn + 2, 1.0);
        let inner = |t: f64, name: &str| model(request(t, 700..703, 1.0), name);
        let entries = [
            subagent(0.0, "orphan", &[inner(0.0, "x")]),
            model(row(1), "a"),
            subagent(12.0, "s", &[inner(12.0, "b")]),
            model(row(2), "c"),
            model(row(3), "d"),
        ];
        let indexes = |models: usize| {
            let options = CorpusOptions { models, ..CorpusOptions::default() };
            let template = template_with(&trace_json(&entries), &options);
            let turns = template.conversations.into_iter().flat_map(|conversation| conversation.turns);
            let mut named: Vec<(String, u32)> =
                turns.map(|turn| (turn.recorded_model.to_string(), turn.model)).collect();
            named.sort();
            named.into_iter().map(|(_, index)| index).collect::<Vec<_>>()
        };
        // The order is a, x (of the dropped entry), b, c, d.
        assert_eq!(indexes(0), [0, 2, 3, 4]);
        assert_eq!(indexes(1), [0, 0, 0, 0]);
        assert_eq!(indexes(2), [0, 0, 1, 0]);
        assert_eq!(indexes(3), [0, 2, 0, 1]);
    }

    #[test]
    fn output_limits_are_capped_and_at_least_1() {
        assert_eq!(
            [max_tokens(0, None), max_tokens(7, None), max_tokens(7, Some(5)), max_tokens(0, Some(5))],
            [1, 7, 5, 1]
        );
        let inside = [with(request(2.0, 700..703, 1.0), json!({ "out": 500 }))];
        let entries =
            [request(0.0, 1..3, 1.0), subagent(2.0, "a", &inside), request(2.5, [1, 90], 1.0), request(9.0, 1..4, 1.0)];
        let entries = entries.map(|entry| with(entry, json!({ "out": 500 })));
        let mut trace = trace_json(&entries);
        if let Some(marker) = trace["requests"][1].as_object_mut() {
            marker.remove("out");
        }
        let options = CorpusOptions { max_osl: Some(50), ..CorpusOptions::default() };
        let template = template_with(&trace, &options);
        let limits: Vec<u32> =
            template.conversations.iter().map(|conversation| conversation.turns[0].max_tokens).collect();
        assert_eq!(limits, [50, 500, 50]);
    }

    #[test]
    fn the_kind_of_an_input_is_said_by_its_types_or_by_the_last_stop() {
        let kinds = |first: Value, second: Value| made(&[first, second], |_| ()).root().turns[1].input_kind;
        let (tool, user) = (Some(InputKind::Tool), Some(InputKind::User));
        for (first, second, expected) in [
            (json!({}), json!({}), None),
            (json!({ "stop": "tool_use" }), json!({}), tool),
            (json!({ "stop": "end_turn" }), json!({}), user),
            (json!({ "stop": "end_turn" }), json!({ "input_types": ["text", "tool_result"] }), tool),
            (json!({ "stop": "tool_use" }), json!({ "input_types": ["text"] }), user),
        ] {
            assert_eq!(kinds(first.clone(), second.clone()), expected, "{first} {second}");
        }
    }
}
