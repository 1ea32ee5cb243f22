//! `agentx profile`: the reference's flags → a plan document (`scenario.md` §11).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value, json};

use crate::problem::Problem;
use crate::tree;

/// What the flags say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileArguments {
    /// The plan they are equivalent to, as YAML.
    pub plan: String,
    /// The same with `${API_KEY}` in place of the key and of credentials in headers: what `--print-plan` prints.
    pub printed: String,
    /// A config file given with `-f`: the plan, and the document goes over it as an overlay.
    pub config: Option<String>,
    /// `--print-plan`.
    pub print_plan: bool,
    /// `--help`.
    pub help: bool,
    /// `--overwrite`, as of `agentx run`.
    pub overwrite: bool,
    /// `--events`, as of `agentx run`.
    pub events: bool,
    /// `--cancel-exit-zero`, as of `agentx run`.
    pub cancel_exit_zero: bool,
    /// `--set KEY=VALUE`, as of `agentx run`.
    pub sets: Vec<String>,
    /// INFO lines.
    pub notes: Vec<String>,
}

/// How a flag's value becomes a key's.
#[derive(Clone, Copy)]
enum Form {
    /// As text.
    Text,
    /// A number, or text when it is none.
    Number,
    /// No value: this JSON text.
    Fixed(&'static str),
    /// Any number of values, also from several flags, also separated by commas.
    Many,
    /// `key:value` pairs, also as a JSON object.
    Pairs,
    /// A number or a comma-separated list of them.
    Numbers,
    /// One value or comma-separated ones.
    Names,
}

use Form::{Fixed, Many, Names, Number, Numbers, Pairs, Text};

/// Flag, plan key, form.
const FLAGS: &[(&str, &str, Form)] = &[
    ("--scenario", "scenario", Text),
    ("--unsafe-override", "unsafe_override", Fixed("true")),
    ("--url", "target.urls", Many),
    ("-u", "target.urls", Many),
    ("--url-strategy", "target.url_strategy", Text),
    ("--endpoint-type", "target.endpoint", Text),
    ("--custom-endpoint", "target.path", Text),
    ("--endpoint", "target.path", Text),
    ("--api-key", "target.api_key", Text),
    ("--header", "target.headers", Pairs),
    ("-H", "target.headers", Pairs),
    ("--extra-inputs", "target.extra_inputs", Pairs),
    ("--streaming", "target.streaming", Fixed("true")),
    ("--use-legacy-max-tokens", "target.legacy_max_tokens", Fixed("true")),
    ("--request-timeout-seconds", "target.request_timeout", Number),
    ("--connection-reuse-strategy", "target.connection_reuse", Text),
    ("--session-header", "target.session_header_name", Text),
    ("--wait-for-model-timeout", "target.ready.timeout", Number),
    ("--wait-for-model-mode", "target.ready.mode", Text),
    ("--wait-for-model-interval", "target.ready.interval", Number),
    ("--model", "model.names", Names),
    ("-m", "model.names", Names),
    ("--model-names", "model.names", Names),
    ("--model-selection-strategy", "model.selection", Text),
    ("--tokenizer", "tokenizer.source", Text),
    ("--tokenizer-revision", "tokenizer.revision", Text),
    ("--tokenizer-trust-remote-code", "tokenizer.trust_remote_code", Fixed("true")),
    ("--apply-chat-template", "tokenizer.apply_chat_template", Fixed("true")),
    ("--use-server-token-count", "tokenizer.token_counts", Fixed(r#""server""#)),
    ("--per-chunk-usage", "tokenizer.per_chunk_usage", Fixed("true")),
    ("--public-dataset", "corpus.alias", Text),
    ("--hf-weka-dataset", "corpus.hf_repo", Text),
    ("--hf-subset", "corpus.hf_subset", Text),
    ("--dataset-filter", "corpus.filters", Pairs),
    ("--input-file", "corpus.path", Text),
    ("--custom-dataset-type", "corpus.format", Text),
    ("--max-context-length", "corpus.max_context_tokens", Number),
    ("--num-dataset-entries", "corpus.max_traces", Number),
    ("--num-prompts", "corpus.max_traces", Number),
    ("--dataset-sampling-strategy", "corpus.sampling", Text),
    ("--allow-dataset-wrap", "corpus.allow_wrap", Fixed("true")),
    ("--no-allow-dataset-wrap", "corpus.allow_wrap", Fixed("false")),
    ("--synthesis-max-isl", "corpus.max_input_tokens", Number),
    ("--synthesis-max-osl", "corpus.max_output_tokens", Number),
    ("--prompt-corpus", "corpus.text", Text),
    ("--concurrency", "load.concurrency", Numbers),
    ("--trajectory-start-min-ratio", "load.start_ratio.min", Number),
    ("--trajectory-start-max-ratio", "load.start_ratio.max", Number),
    ("--burst-phase-starts", "load.burst_phase_starts", Fixed("true")),
    ("--request-rate", "load.request_rate", Number),
    ("--arrival-pattern", "load.arrival_pattern", Text),
    ("--request-rate-mode", "load.arrival_pattern", Text),
    ("--user-centric-rate", "load.user_centric_rate", Number),
    ("--fixed-schedule", "load.fixed_schedule", Fixed("true")),
    ("--no-fixed-schedule", "load.fixed_schedule", Fixed("false")),
    ("--adaptive-scale", "load.adaptive_scale", Fixed("true")),
    ("--ignore-trace-delays", "timing.delays", Fixed(r#""none""#)),
    ("--use-think-time-only", "timing.delays", Fixed(r#""think_time""#)),
    ("--system-idle-gap-cap-seconds", "timing.system_idle_cap", Number),
    ("--trace-idle-gap-cap-seconds", "timing.trace_idle_cap", Number),
    ("--inter-turn-delay-cap-seconds", "timing.turn_delay_cap", Number),
    ("--agentic-cache-warmup-duration", "warmup.cache_duration", Number),
    ("--warmup-requests-per-lane", "warmup.requests_per_lane", Number),
    ("--warmup-grace-period", "warmup.grace", Number),
    ("--agentic-warmup-grace-period", "warmup.grace", Number),
    ("--warmup-request-count", "warmup.requests", Number),
    ("--num-warmup-requests", "warmup.requests", Number),
    ("--num-warmup-sessions", "warmup.sessions", Number),
    ("--warmup-num-sessions", "warmup.sessions", Number),
    ("--warmup-duration", "warmup.duration", Number),
    ("--warmup-concurrency", "warmup.concurrency", Number),
    ("--benchmark-duration", "profiling.duration", Number),
    ("--benchmark-grace-period", "profiling.grace", Number),
    ("--request-count", "profiling.request_count", Number),
    ("--num-requests", "profiling.request_count", Number),
    ("--num-sessions", "profiling.session_count", Number),
    ("--num-conversations", "profiling.session_count", Number),
    ("--conversation-num", "profiling.session_count", Number),
    ("--failed-request-threshold", "profiling.failed_request_threshold", Number),
    ("--prefill-concurrency", "profiling.prefill_concurrency", Number),
    ("--concurrency-ramp-duration", "profiling.concurrency_ramp", Number),
    ("--cache-bust", "cache_bust.target", Text),
    ("--random-seed", "sampling.seed", Number),
    ("--num-profile-runs", "runs.count", Number),
    ("--profile-run-cooldown-seconds", "runs.cooldown", Number),
    ("--confidence-level", "runs.confidence_level", Number),
    ("--profile-run-disable-warmup-after-first", "runs.warmup_after_first", Fixed("false")),
    ("--no-profile-run-disable-warmup-after-first", "runs.warmup_after_first", Fixed("true")),
    ("--set-consistent-seed", "runs.consistent_seed", Fixed("true")),
    ("--no-set-consistent-seed", "runs.consistent_seed", Fixed("false")),
    ("--vary-seed-per-trial", "runs.vary_seed_per_trial", Fixed("true")),
    ("--no-vary-seed-per-trial", "runs.vary_seed_per_trial", Fixed("false")),
    ("--convergence-metric", "runs.convergence.metric", Text),
    ("--convergence-stat", "runs.convergence.stat", Text),
    ("--convergence-threshold", "runs.convergence.threshold", Number),
    ("--convergence-mode", "runs.convergence.mode", Text),
    ("--artifact-dir", "output.dir", Text),
    ("--output-artifact-dir", "output.dir", Text),
    ("--profile-export-prefix", "output.prefix", Text),
    ("--profile-export-file", "output.prefix", Text),
    ("--export-level", "output.level", Text),
    ("--profile-export-level", "output.level", Text),
    ("--slice-duration", "output.slice_duration", Number),
    ("--export-http-trace", "output.http_trace", Fixed("true")),
    ("--export-outputs-json", "output.responses", Fixed("true")),
    ("--ui", "ui.type", Text),
    ("--ui-type", "ui.type", Text),
    ("--log-level", "ui.log_level", Text),
    ("-v", "ui.log_level", Fixed(r#""debug""#)),
    ("--verbose", "ui.log_level", Fixed(r#""debug""#)),
    ("-vv", "ui.log_level", Fixed(r#""trace""#)),
    ("--extra-verbose", "ui.log_level", Fixed(r#""trace""#)),
    ("--stats-interval", "ui.stats_interval", Number),
    ("--goodput", "metrics.goodput", Pairs),
    ("--server-metrics", "metrics.server.urls", Many),
    ("--no-server-metrics", "metrics.server.enabled", Fixed("false")),
    ("--server-metrics-formats", "metrics.server.formats", Many),
    ("--gpu-telemetry", "metrics.gpu.urls", Many),
    ("--no-gpu-telemetry", "metrics.gpu.enabled", Fixed("false")),
    ("--network-latency-automatic", "metrics.network_latency", Fixed(r#""auto""#)),
    ("--network-latency-mean", "metrics.network_latency", Number),
];

/// Flags about the inner parts of the reference: they change nothing that is measured, and are passed over with a note.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("--workers-", "there are no worker processes; engine.io_threads sets the number of threads"),
    ("--max-workers", "there are no worker processes; engine.io_threads sets the number of threads"),
    ("--record-processor", "records are processed in the program itself"),
    ("--zmq-", "there are no processes to connect"),
    ("--dataset-mmap", "the corpus is read anew each time"),
];

/// Flags of parts that are not here: with them another benchmark is meant.
const NOT_HERE: &[(&str, &str)] = &[
    ("--accuracy", "accuracy is not measured"),
    ("--search-", "there are no sweeps: run the plan once for each value"),
    ("--sweep", "there are no sweeps: run the plan once for each value"),
    ("--audio-", "recorded sessions are text"),
    ("--image-", "recorded sessions are text"),
    ("--video-", "recorded sessions are text"),
    ("--rankings-", "only the chat endpoint is replayed"),
    ("--isl", "prompts have the recorded lengths"),
    ("--osl", "answers have the recorded lengths"),
    ("--synthetic-", "prompts come from recorded sessions"),
    ("--prompt-", "prompts come from recorded sessions"),
    ("--output-tokens-", "answers have the recorded lengths"),
    ("--prefix-prompt-", "prompts come from recorded sessions"),
    ("--num-prefix-prompts", "prompts come from recorded sessions"),
    ("--session-turn", "sessions have the recorded turns and delays"),
    ("--conversation-turn", "sessions have the recorded turns and delays"),
    ("--otel-", "results are written as files"),
    ("--mlflow-", "results are written as files"),
    ("--wandb-", "results are written as files"),
    ("--kube", "the program runs where it is started"),
];

/// Every flag, the form of its value, and the key it sets, in the order of the reference's help.
pub fn profile_flags() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    FLAGS.iter().map(|(name, key, form)| {
        let value = match form {
            Fixed(_) => "",
            Text => "VALUE",
            Number | Numbers => "N",
            Many => "VALUE…",
            Pairs => "KEY:VALUE",
            Names => "NAME[,NAME]",
        };
        (*name, value, *key)
    })
}

/// Reads the arguments after `agentx profile`. Without `--scenario` and without a config file the preset is `agentx`;
/// without `--concurrency` one lane replays, as in the reference.
pub fn profile_arguments(arguments: &[String]) -> Result<ProfileArguments, Vec<Problem>> {
    let mut reader = FlagReader { rest: arguments.iter().cloned().collect(), ..FlagReader::default() };
    while let Some(argument) = reader.rest.pop_front() {
        reader.take(&argument);
    }
    let FlagReader { mut values, out: mut arguments, problems, .. } = reader;
    if !problems.is_empty() {
        return Err(problems);
    }
    if arguments.config.is_none() {
        values.entry("scenario".to_owned()).or_insert_with(|| "agentx@1".into());
        values.entry("load.concurrency".to_owned()).or_insert_with(|| json!(1));
    }
    let mut plan = Map::from_iter([("agentx".to_owned(), json!(1))]);
    if let Some(scenario) = values.remove("scenario") {
        plan.insert("scenario".to_owned(), scenario);
    }
    for (key, value) in values {
        match value {
            // Names of headers and inputs may hold dots: a map is put as one value.
            Value::Object(map) => tree::put(&mut plan, &key, Value::Object(map)),
            value => tree::put(&mut plan, &key, value),
        }
    }
    let plan = Value::Object(plan);
    arguments.plan = yaml(&plan)?;
    arguments.printed = yaml(&without_secrets(plan))?;
    Ok(arguments)
}

fn yaml(plan: &Value) -> Result<String, Vec<Problem>> {
    let problem = |error| vec![Problem::new(format!("the flags cannot be written as a plan: {error}"))];
    serde_yaml::to_string(plan).map_err(problem)
}

/// A printed plan reads its secrets from the environment.
fn without_secrets(mut plan: Value) -> Value {
    let mut redacted = plan.clone();
    crate::redact::tree(&mut redacted);
    for pointer in ["/target/api_key", "/target/headers", "/target/extra_inputs"] {
        let (Some(value), Some(shown)) = (plan.pointer_mut(pointer), redacted.pointer(pointer)) else { continue };
        *value = match shown {
            Value::String(_) => "${API_KEY}".into(),
            Value::Object(map) => {
                let hidden = |value: &Value| value.as_str() == Some(crate::redact::REDACTED);
                let shown = |value: &Value| if hidden(value) { "${API_KEY}".into() } else { value.clone() };
                Value::Object(map.iter().map(|(name, value)| (name.clone(), shown(value))).collect())
            }
            other => other.clone(),
        };
    }
    plan
}

#[derive(Default)]
struct FlagReader {
    rest: VecDeque<String>,
    values: BTreeMap<String, Value>,
    seen: BTreeSet<&'static str>,
    /// `warmup.grace` came from the flag that wins.
    own_grace: bool,
    out: ProfileArguments,
    problems: Vec<Problem>,
}

impl FlagReader {
    fn take(&mut self, argument: &str) {
        let (flag, inline) = match argument.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
            _ => (argument, None),
        };
        let spelled = if flag.starts_with("--") { flag.replace('_', "-") } else { flag.to_owned() };
        match spelled.as_str() {
            "--print-plan" => self.out.print_plan = true,
            "-h" | "--help" => self.out.help = true,
            "--overwrite" => self.out.overwrite = true,
            "--events" => self.out.events = true,
            "--cancel-exit-zero" => self.out.cancel_exit_zero = true,
            "--set" => match inline.or_else(|| self.rest.pop_front()) {
                Some(setting) => self.out.sets.push(setting),
                None => self.problem(flag, "needs KEY=VALUE"),
            },
            "-f" | "--config" => match inline.or_else(|| self.rest.pop_front()) {
                Some(path) => self.out.config = Some(path),
                None => self.problem(flag, "needs a file"),
            },
            "--use-dynamo-conv-aware-routing" | "--dynamo-session-timeout-seconds" => {
                let what = format!("`{spelled}` is known neither to the reference nor here");
                let help = "set target.session_headers: [x_dynamo_session_id], or the variable \
                            AIPERF_HTTP_X_DYNAMO_SESSION_ID_FROM_CORRELATION_ID=1";
                self.problems.push(Problem::new(what).help(help));
                self.values_of(inline);
            }
            _ => {
                if let Some(&(name, key, form)) = FLAGS.iter().find(|(name, ..)| *name == spelled) {
                    self.flag(name, key, form, inline);
                    return;
                }
                let among = |table: &[(&str, &'static str)]| {
                    table.iter().find(|(prefix, _)| spelled.starts_with(prefix)).map(|(_, why)| *why)
                };
                if let Some(why) = among(WITHOUT_EFFECT) {
                    self.out.notes.push(format!("`{spelled}` has no effect: {why}"));
                    self.values_of(inline);
                    return;
                }
                if let Some(why) = among(NOT_HERE) {
                    self.problems.push(Problem::new(format!("`{spelled}` is not available here: {why}")));
                    self.values_of(inline);
                    return;
                }
                let names: Vec<&str> = FLAGS.iter().map(|(name, ..)| *name).collect();
                let mut problem = Problem::new(format!("unknown argument `{flag}`"));
                if let Some(near) = crate::keys::nearest(&names, &spelled) {
                    problem = problem.help(format!("did you mean `{near}`?"));
                }
                self.problems.push(problem);
            }
        }
    }

    fn problem(&mut self, flag: &str, what: &str) {
        self.problems.push(Problem::new(format!("`{flag}` {what}")));
    }

    /// The next argument, if it is a value.
    fn value(&mut self) -> Option<String> {
        self.rest.front().filter(|next| !is_flag(next))?;
        self.rest.pop_front()
    }

    /// The values after a flag, up to the next flag.
    fn values_of(&mut self, inline: Option<String>) -> Vec<String> {
        let mut values: Vec<String> = inline.into_iter().collect();
        if values.is_empty() {
            while let Some(value) = self.value() {
                values.push(value);
            }
        }
        values
    }

    fn flag(&mut self, name: &'static str, key: &'static str, form: Form, inline: Option<String>) {
        let repeats = matches!(form, Many | Pairs);
        if !self.seen.insert(name) && !repeats {
            return self.problem(name, "is given twice");
        }
        let value = match form {
            Fixed(json) => match inline.as_deref() {
                None | Some("true") => serde_json::from_str(json).unwrap_or_default(),
                Some(_) => return self.problem(name, "takes no value"),
            },
            Many => match self.values_of(inline) {
                values if values.is_empty() && key == "metrics.gpu.urls" => {
                    self.values.insert("metrics.gpu.enabled".to_owned(), Value::Bool(true));
                    return;
                }
                values if values.is_empty() => return self.problem(name, "needs a value"),
                values => values.iter().flat_map(|value| value.split(',')).map(str::trim).collect(),
            },
            Pairs => match self.values_of(inline) {
                values if values.is_empty() => return self.problem(name, "needs key:value"),
                values => match values.iter().map(|value| pairs(value, key)).collect::<Option<Vec<_>>>() {
                    Some(maps) => Value::Object(maps.into_iter().flatten().collect()),
                    None => return self.problem(name, "needs key:value"),
                },
            },
            Text | Number | Numbers | Names => match inline.or_else(|| self.value()) {
                None => return self.problem(name, "needs a value"),
                Some(text) => single(form, &text),
            },
        };
        self.store(name, key, value);
    }

    fn store(&mut self, name: &str, key: &str, value: Value) {
        if key == "warmup.grace" {
            let own = name == "--agentic-warmup-grace-period";
            if self.own_grace && !own {
                return;
            }
            self.own_grace |= own;
            self.values.insert(key.to_owned(), value);
            return;
        }
        match (self.values.get_mut(key), value) {
            (Some(Value::Array(items)), Value::Array(more)) => items.extend(more),
            (Some(Value::Object(map)), Value::Object(more)) => map.extend(more),
            (Some(before), value) if *before != value && !key.starts_with("ui.log_level") => {
                let what = if key == "timing.delays" {
                    "`--ignore-trace-delays` and `--use-think-time-only` exclude one another".to_owned()
                } else {
                    format!("`{name}` sets {key}, which another flag set already")
                };
                self.problems.push(Problem::new(what).key(key));
            }
            (_, value) => {
                self.values.insert(key.to_owned(), value);
            }
        }
    }
}

fn is_flag(argument: &str) -> bool {
    argument.starts_with('-') && argument.len() > 1 && argument.parse::<f64>().is_err()
}

fn single(form: Form, text: &str) -> Value {
    let number = |text: &str| -> Value {
        let text = text.trim();
        text.parse::<u64>()
            .map(Value::from)
            .or_else(|_| text.parse::<i64>().map(Value::from))
            .ok()
            .or_else(|| text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from))
            .unwrap_or_else(|| text.into())
    };
    match form {
        Numbers if text.contains(',') => text.split(',').map(number).collect(),
        Number | Numbers => number(text),
        Names => text.split(',').map(str::trim).collect(),
        _ => text.into(),
    }
}

/// `key:value`, several with commas, or a JSON object. Values are text in headers, YAML scalars elsewhere.
fn pairs(text: &str, key: &str) -> Option<Map<String, Value>> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).ok();
    }
    if key == "target.headers" {
        let (name, value) = text.split_once(':')?;
        return Some(Map::from_iter([(name.trim().to_owned(), value.trim().into())]));
    }
    text.split(',')
        .map(|pair| {
            let (name, value) = pair.split_once(':')?;
            let value = value.trim();
            let parsed = serde_yaml::from_str::<Value>(value).ok().filter(|value| !value.is_null());
            (!name.trim().is_empty()).then(|| (name.trim().to_owned(), parsed.unwrap_or_else(|| value.into())))
        })
        .collect()
}
