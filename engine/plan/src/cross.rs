//! Checks between keys that hold with any scenario and without one; no override helps.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::layer::{Layer, Merged};
use crate::problem::Problem;
use crate::scenario::{is_known_alias, nearest_alias};

/// What the checks look at.
pub(crate) struct Facts<'a> {
    /// What the user wrote.
    pub(crate) user: &'a Merged,
    /// Everything, scenario included.
    pub(crate) effective: &'a Merged,
    /// The user's layers.
    pub(crate) layers: &'a [Layer],
    /// Keys whose value is a problem already.
    pub(crate) poisoned: &'a BTreeSet<String>,
    /// A scenario is set.
    pub(crate) scenario: bool,
}

impl Facts<'_> {
    fn user(&self, key: &str) -> Option<&Value> {
        self.user.get(key)
    }

    fn number(&self, key: &str) -> Option<f64> {
        match self.effective.get(key)? {
            Value::String(text) => crate::seconds::parse(text),
            value => value.as_f64(),
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.effective.get(key).and_then(Value::as_str)
    }

    fn flag(&self, key: &str) -> bool {
        self.effective.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A value that counts: neither unset nor off.
    fn on(&self, key: &str) -> bool {
        self.effective.get(key).is_some_and(|value| !matches!(value.as_str(), Some("off" | "all")))
    }

    fn problem(&self, keys: &[&str], what: impl Into<String>) -> Problem {
        let place = keys.iter().find_map(|key| {
            let layer = self.layers.get(self.user.origin(key)?)?;
            Some(layer.place(key))
        });
        Problem::new(what).maybe_at(place).key(keys.first().copied().unwrap_or_default())
    }

    fn clean(&self, keys: &[&str]) -> bool {
        !keys.iter().any(|key| self.poisoned.contains(*key))
    }
}

/// All cross-field problems.
pub(crate) fn check(facts: &Facts<'_>, problems: &mut Vec<Problem>) {
    required(facts, problems);
    corpus(facts, problems);
    target(facts, problems);
    phases(facts, problems);
    runs(facts, problems);
}

fn required(facts: &Facts<'_>, problems: &mut Vec<Problem>) {
    if facts.user("model.names").is_none() && facts.clean(&["model.names", "model"]) {
        problems.push(
            facts
                .problem(&["model.names"], "missing: which model is asked?")
                .help("for example `model: {names: [deepseek-ai/DeepSeek-V4-Pro]}`"),
        );
    }
    if facts.user("load.concurrency").is_none() && facts.clean(&["load.concurrency", "load"]) {
        problems.push(
            facts
                .problem(&["load.concurrency"], "missing: how many lanes replay at once?")
                .expected("an integer >= 1")
                .help("for example `load: {concurrency: 16}`"),
        );
    }
    let has_corpus = ["corpus.alias", "corpus.hf_repo", "corpus.path", "corpus.synthetic"]
        .iter()
        .any(|key| facts.user(key).is_some() || facts.poisoned.contains(*key));
    // Under a scenario the missing corpus is a violation, listed with the others.
    if !has_corpus && !facts.scenario && facts.clean(&["corpus"]) {
        problems.push(
            facts
                .problem(&["corpus.path"], "missing: which corpus is replayed?")
                .expected("one of corpus.alias, corpus.hf_repo, corpus.path, corpus.synthetic")
                .help("for example `corpus: {alias: semianalysis_cc_traces_weka_062126}`"),
        );
    }
}

fn corpus(facts: &Facts<'_>, problems: &mut Vec<Problem>) {
    let sources = ["corpus.hf_repo", "corpus.alias", "corpus.path", "corpus.synthetic"];
    let given: Vec<&str> = sources.into_iter().filter(|key| facts.user(key).is_some()).collect();
    if let [first, others @ ..] = given.as_slice()
        && !others.is_empty()
    {
        let what = format!("excludes {}: one plan replays one corpus", others.join(", "));
        problems.push(
            facts
                .problem(&[first], what)
                .help("keep one of them; where one comes from a lower layer, unset it with `null`"),
        );
    }
    if let Some(alias) = facts.user("corpus.alias").and_then(Value::as_str)
        && !facts.scenario
        && !is_known_alias(alias)
    {
        let problem = facts.problem(&["corpus.alias"], format!("\"{alias}\" is no published corpus"));
        let help = nearest_alias(alias)
            .map_or("`agentx corpus list` shows them".to_owned(), |near| format!("did you mean `{near}`?"));
        problems.push(problem.help(help));
    }
    for key in ["corpus.hf_subset", "corpus.filters"] {
        if facts.user(key).is_some() && facts.user("corpus.path").is_some() {
            problems.push(facts.problem(&[key], "belongs to a hub corpus, and corpus.path names a local one"));
        }
    }
    if facts.user("corpus.format").is_some() && facts.user("corpus.path").is_none() && !given.is_empty() {
        problems.push(facts.problem(&["corpus.format"], "belongs to corpus.path, which is not given"));
    }
}

fn target(facts: &Facts<'_>, problems: &mut Vec<Problem>) {
    if facts.user("target.mock").is_some() && facts.user("target.urls").is_some() {
        problems.push(
            facts
                .problem(&["target.mock"], "excludes target.urls: the run is against the mock or against a server")
                .help("keep one of them"),
        );
    }
    if facts.flag("tokenizer.per_chunk_usage") && facts.text("tokenizer.token_counts") != Some("server") {
        problems.push(facts.problem(&["tokenizer.per_chunk_usage"], "needs tokenizer.token_counts: server"));
    }
}

fn phases(facts: &Facts<'_>, problems: &mut Vec<Problem>) {
    let window = ["load.start_ratio.min", "load.start_ratio.max"];
    if facts.clean(&window)
        && let (Some(min), Some(max)) = (facts.number(window[0]), facts.number(window[1]))
        && min > max
    {
        let what = format!("{min} is greater than load.start_ratio.max, {max}");
        problems.push(facts.problem(&window, what).expected("min <= max"));
    }
    let both = ["warmup.requests_per_lane", "warmup.cache_duration"];
    if both.iter().all(|key| facts.on(key)) {
        problems.push(
            facts
                .problem(&both, "excludes warmup.cache_duration: the two are mutually exclusive")
                .help("keep one of them; `off` switches the other off"),
        );
    }
    if facts.user("profiling.grace").is_some()
        && facts.effective.get("profiling.duration").is_none()
        && facts.clean(&["profiling.duration"])
    {
        problems
            .push(facts.problem(&["profiling.grace"], "needs profiling.duration: it begins when the duration ends"));
    }
    if facts.on("profiling.prefill_concurrency") {
        let key = "profiling.prefill_concurrency";
        if let (Some(prefill), Some(lanes)) = (facts.number(key), facts.number("load.concurrency"))
            && prefill > lanes
            && facts.clean(&["load.concurrency"])
        {
            problems.push(facts.problem(&[key], format!("{prefill} is greater than load.concurrency, {lanes}")));
        }
        if !facts.flag("target.streaming") && facts.clean(&["target.streaming"]) {
            problems.push(facts.problem(&[key], "needs target.streaming: true"));
        }
    }
    if facts.scenario {
        return;
    }
    let mode = facts.text("timing.mode").unwrap_or("agentic_replay");
    if mode != "agentic_replay" {
        let problem = facts.problem(&["timing.mode"], format!("\"{mode}\" is not in version 1"));
        problems.push(problem.expected("`agentic_replay`, or leave the key out"));
        if let Some(key) = both.iter().find(|key| facts.on(key)) {
            problems.push(facts.problem(&[key], "needs timing.mode: agentic_replay"));
        }
    }
    for spec in crate::keys::REGISTRY.iter().filter(|spec| spec.rule.is_some()) {
        if facts.user(spec.key).is_some_and(|value| value != &Value::Bool(false)) {
            let problem = facts.problem(&[spec.key], "is not in version 1: agentic replay is the only scheduler");
            problems.push(problem.help("remove it; load is set by load.concurrency"));
        }
    }
}

fn runs(facts: &Facts<'_>, problems: &mut Vec<Problem>) {
    if facts.text("ui.type") == Some("dashboard") && facts.number("runs.count").is_some_and(|count| count > 1.0) {
        problems.push(
            facts
                .problem(&["ui.type"], "the dashboard shows one run, and runs.count is greater than 1")
                .expected("`auto`, `simple` or `none`"),
        );
    }
    if facts.on("runs.convergence.metric")
        && facts.text("runs.convergence.mode") == Some("distribution")
        && facts.text("output.level") == Some("summary")
    {
        problems.push(
            facts
                .problem(&["runs.convergence.mode"], "`distribution` compares records, and output.level is `summary`")
                .help("write `output: {level: records}`"),
        );
    }
}
