//! Token counts as servers report them (`wire.md` §3.5).

use agentx_types::Usage;
use serde_json::{Map, Value};

/// The counts of one answer, folded over all usage objects of its stream.
///
/// The last object that has the core counts wins; objects are never summed; an incomplete one adds what it has and
/// wipes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UsageFold {
    usage: Usage,
    complete: bool,
}

impl UsageFold {
    /// Takes in one usage object; says whether it had the core counts.
    pub(crate) fn add(&mut self, object: &Map<String, Value>) -> bool {
        let new = read(object);
        let complete = new.prompt.is_some() && new.completion.is_some();
        let known = self.usage;
        let core = if complete {
            [new.prompt, new.completion, new.total]
        } else if self.complete {
            [known.prompt, known.completion, known.total.or(new.total)]
        } else {
            [new.prompt.or(known.prompt), new.completion.or(known.completion), new.total.or(known.total)]
        };
        self.usage = Usage {
            prompt: core[0],
            completion: core[1],
            total: core[2],
            reasoning: new.reasoning.or(known.reasoning),
            cache_read: new.cache_read.or(known.cache_read),
            cache_write: new.cache_write.or(known.cache_write),
            cache_miss: new.cache_miss.or(known.cache_miss),
            accepted_prediction: new.accepted_prediction.or(known.accepted_prediction),
            rejected_prediction: new.rejected_prediction.or(known.rejected_prediction),
            tool_use_prompt: new.tool_use_prompt.or(known.tool_use_prompt),
        };
        self.complete |= complete;
        complete
    }

    /// The counts, if any was reported.
    pub(crate) fn get(&self) -> Option<Usage> {
        (!self.usage.is_empty()).then_some(self.usage)
    }
}

fn read(object: &Map<String, Value>) -> Usage {
    let top = |key: &str| count(object.get(key));
    let nested = |groups: &[&str], key: &str| groups.iter().find_map(|group| count(object.get(*group)?.get(key)));
    let prompt_details = ["prompt_tokens_details", "input_tokens_details"];
    let completion_details = ["completion_tokens_details", "output_tokens_details"];
    Usage {
        prompt: top("prompt_tokens").or_else(|| top("input_tokens")),
        completion: top("completion_tokens").or_else(|| top("output_tokens")),
        total: top("total_tokens"),
        reasoning: nested(&completion_details, "reasoning_tokens"),
        cache_read: nested(&prompt_details, "cached_tokens")
            .or_else(|| top("prompt_cache_hit_tokens"))
            .or_else(|| top("cache_read_input_tokens")),
        cache_write: top("cache_creation_input_tokens")
            .or_else(|| top("cache_write_tokens"))
            .or_else(|| nested(&prompt_details, "cache_write_tokens")),
        cache_miss: top("prompt_cache_miss_tokens"),
        accepted_prediction: nested(&completion_details, "accepted_prediction_tokens"),
        rejected_prediction: nested(&completion_details, "rejected_prediction_tokens"),
        tool_use_prompt: nested(&prompt_details, "tool_use_prompt_tokens"),
    }
}

/// A count, where there is one: null, negative and non-numeric values are unknown.
fn count(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| value.as_f64().filter(|number| number.is_finite() && *number >= 0.0).map(|n| n as u64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fold(objects: &[Value]) -> Usage {
        let mut fold = UsageFold::default();
        for object in objects {
            fold.add(object.as_object().unwrap_or(&Map::new()));
        }
        fold.get().unwrap_or_default()
    }

    #[test]
    fn the_last_complete_object_wins_and_a_partial_one_wipes_nothing() {
        let usage = fold(&[
            json!({"prompt_tokens": 77, "completion_tokens": 0, "total_tokens": 77}),
            json!({"prompt_tokens_details": {"cached_tokens": 64}}),
            json!({"prompt_tokens": 77, "completion_tokens": 9, "total_tokens": 86}),
            json!({"completion_tokens": 3, "prompt_tokens_details": null}),
        ]);
        let expected =
            Usage { prompt: Some(77), completion: Some(9), total: Some(86), cache_read: Some(64), ..Usage::default() };
        assert_eq!(usage, expected);
    }

    #[test]
    fn absent_and_null_are_unknown_and_zero_is_zero() {
        assert_eq!(
            fold(&[json!({"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": null})]).cache_read,
            None
        );
        assert_eq!(fold(&[json!({"prompt_tokens_details": {"cached_tokens": null}})]).cache_read, None);
        assert_eq!(fold(&[json!({"prompt_tokens_details": {"cached_tokens": 0}})]).cache_read, Some(0));
        assert!(UsageFold::default().get().is_none());
    }

    #[test]
    fn other_spellings() {
        let usage = fold(&[json!({
            "input_tokens": 5, "output_tokens": 6, "prompt_cache_hit_tokens": 2, "prompt_cache_miss_tokens": 3,
            "cache_creation_input_tokens": 1, "output_tokens_details": {"reasoning_tokens": 4},
            "completion_tokens_details": {"accepted_prediction_tokens": 7, "rejected_prediction_tokens": 8},
            "prompt_tokens_details": {"tool_use_prompt_tokens": 9}
        })]);
        let expected = Usage {
            prompt: Some(5),
            completion: Some(6),
            total: None,
            reasoning: Some(4),
            cache_read: Some(2),
            cache_write: Some(1),
            cache_miss: Some(3),
            accepted_prediction: Some(7),
            rejected_prediction: Some(8),
            tool_use_prompt: Some(9),
        };
        assert_eq!(usage, expected);
    }
}
