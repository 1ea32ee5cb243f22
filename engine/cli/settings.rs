//! From a resolved plan to the options of each part.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentx_corpus::text::{ChatTemplateCost, CorpusText, Exactness, TextKind, verify_tokens};
use agentx_corpus::tokenizer::ChatTemplate;
use agentx_corpus::{CorpusOptions, DelayMode, SessionTemplate, UnknownKeys, WekaKnobs};
use agentx_mock::MockOptions;
use agentx_plan::{Loaded, ResolvedPlan, Seconds, input_config};
use agentx_replay::core::step::Moment;
use agentx_replay::core::stream::{Go, PlayIdentity, RequestShop, StreamState};
use agentx_replay::{Identity, Pressure, ReplayOptions, SamplingStrategy};
use agentx_report::{ExportFacts, ExportLevel, OslMismatch, ScenarioFacts, TokenCounts};
use agentx_types::{
    LaneIndex, Nanos, Phase, PlayNumber, PromptAt, RequestKey, Secret, TextFacts, TrimmedFacts, to_millionths,
};
use agentx_wire::{ConnectionReuse, SessionHeader, TlsOptions, WireOptions};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Requests counted again where token counts are not exact.
const DRIFT_SAMPLE: usize = 400;

/// Keys that a plan may hold but this version does not carry out: each is refused with its reason, all at once.
pub(crate) fn unsupported(plan: &ResolvedPlan) -> Result<(), Failure> {
    let mut problems = Vec::new();
    let mut refuse = |wrong: bool, key: &str, instead: &str| {
        if wrong {
            problems.push(format!("{key}: not available in this version; {instead}"));
        }
    };
    refuse(plan.model.selection != "round_robin", "model.selection", "use `round_robin`");
    let sifted = plan.corpus.hf_subset.is_some() || plan.corpus.filters.as_ref().is_some_and(|map| !map.is_empty());
    refuse(sifted, "corpus.hf_subset and corpus.filters", "leave them out: a published corpus is one file, read whole");
    let parquet = plan.metrics.server.formats.iter().any(|format| format == "parquet");
    refuse(parquet, "metrics.server.formats", "use `json`, `csv` and `jsonl`");
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage(problems.join("\nerror: ")))
}

fn finite(seconds: Seconds) -> Option<f64> {
    seconds.0.is_finite().then_some(seconds.0)
}

fn duration(seconds: Seconds) -> Duration {
    Duration::try_from_secs_f64(seconds.0).unwrap_or(Duration::MAX)
}

/// Which record files are written.
pub(crate) fn export_level(plan: &ResolvedPlan) -> ExportLevel {
    match plan.output.level.as_str() {
        "summary" => ExportLevel::Summary,
        "raw" => ExportLevel::Raw,
        _ => ExportLevel::Records,
    }
}

/// Whether tokens are counted by us.
pub(crate) fn counts_on_our_side(plan: &ResolvedPlan) -> bool {
    plan.tokenizer.token_counts == "client"
}

/// How the corpus is read.
pub(crate) fn corpus(plan: &ResolvedPlan) -> CorpusOptions {
    let weka = &plan.corpus.weka;
    CorpusOptions {
        max_context_length: plan.corpus.max_context_tokens,
        num_dataset_entries: plan.corpus.max_traces.map(|n| n as usize),
        max_isl: plan.corpus.max_input_tokens,
        max_osl: plan.corpus.max_output_tokens,
        models: plan.model.names.len().max(1),
        delays: match plan.timing.delays.as_str() {
            "think_time" => DelayMode::ThinkTime,
            "none" => DelayMode::None,
            _ => DelayMode::EndToStart,
        },
        delay_cap_seconds: plan.timing.turn_delay_cap.map(|cap| cap.0),
        unknown_keys: if plan.corpus.unknown_keys == "ignore" { UnknownKeys::Ignore } else { UnknownKeys::Error },
        weka: WekaKnobs {
            parallel_workers: weka.parallel_workers as usize,
            parallel_threshold: weka.parallel_threshold as usize,
            split_flattened_agents: weka.split_flattened_agents,
            tool_shaped_messages: weka.tool_shaped_messages,
            seam_max_gap_seconds: weka.seam_max_gap_seconds,
            seam_min_overlap_ratio: weka.seam_min_overlap_ratio,
            aux_max_requests: weka.aux_max_requests as usize,
            aux_isl_ratio: weka.aux_isl_ratio,
            aux_isl_floor: weka.aux_isl_floor,
            aux_cross_model: weka.aux_cross_model,
            aux_reduction_osl_max: weka.aux_reduction_osl_max,
            aux_reduction_ratio: weka.aux_reduction_ratio,
            worker_group_min: weka.worker_group_min as usize,
        },
    }
}

/// How it is replayed.
pub(crate) fn replay(plan: &ResolvedPlan, benchmark_id: &str) -> ReplayOptions {
    let pressure = match (plan.warmup.cache_duration, plan.warmup.requests_per_lane) {
        (Some(seconds), _) => Some(Pressure::Duration(seconds.0)),
        (None, Some(requests)) => Some(Pressure::RequestsPerLane(requests as u32)),
        (None, None) => None,
    };
    ReplayOptions {
        concurrency: plan.load.concurrency as u32,
        seed: plan.sampling.seed,
        start_ratio: (plan.load.start_ratio.min, plan.load.start_ratio.max),
        sampling: match plan.corpus.sampling.as_str() {
            "shuffle" => SamplingStrategy::Shuffle,
            "random" => SamplingStrategy::Random,
            _ => SamplingStrategy::Sequential,
        },
        allow_wrap: plan.corpus.allow_wrap,
        burst_phase_starts: plan.load.burst_phase_starts,
        system_idle_cap: plan.timing.system_idle_cap.and_then(finite),
        trace_idle_cap: plan.timing.trace_idle_cap.and_then(finite),
        pressure,
        warmup_grace: finite(plan.warmup.grace),
        duration: plan.profiling.duration.and_then(finite),
        grace: finite(plan.profiling.grace),
        request_count: plan.profiling.request_count,
        session_count: plan.profiling.session_count,
        prefill_concurrency: plan.profiling.prefill_concurrency.map(|n| n as u32),
        failed_request_threshold: plan.profiling.failed_request_threshold,
        cancel_drain: plan.engine.cancel_drain.0,
        fail_fast: plan.subagents.fail_fast,
        heartbeat: Some(plan.ui.warmup_progress_interval.0).filter(|seconds| *seconds > 0.0),
        marker: plan.cache_bust.target,
        benchmark_id: benchmark_id.to_string(),
        models: plan.model.names.iter().map(|name| name.as_str().into()).collect(),
    }
}

/// How requests go out; checked.
pub(crate) fn wire(plan: &ResolvedPlan) -> Result<WireOptions, Failure> {
    let target = &plan.target;
    let header = |name: &String| match name.as_str() {
        "x_session_id" => Some(SessionHeader::XSessionId),
        "x_session_affinity" => Some(SessionHeader::XSessionAffinity),
        "x_smg_routing_key" => Some(SessionHeader::XSmgRoutingKey),
        "x_dynamo_session_id" => Some(SessionHeader::XDynamoSessionId),
        _ => None,
    };
    let options = WireOptions {
        urls: target.urls.clone(),
        path: Some(target.path.clone()),
        api_key: target.api_key.clone(),
        headers: target.headers.iter().map(|(name, value)| (name.clone(), Secret::new(value.clone()))).collect(),
        extra_inputs: target.extra_inputs.clone(),
        streaming: target.streaming,
        legacy_max_tokens: target.legacy_max_tokens,
        include_usage: !counts_on_our_side(plan),
        session_header_name: target.session_header_name.clone(),
        session_headers: target.session_headers.iter().filter_map(header).collect(),
        request_timeout: duration(target.request_timeout),
        keep_alive: duration(target.keep_alive),
        retry_stale: target.retry_stale,
        connection_reuse: match target.connection_reuse.as_str() {
            "never" => ConnectionReuse::Never,
            "sticky" => ConnectionReuse::Sticky,
            _ => ConnectionReuse::Pooled,
        },
        tls: TlsOptions { ca_file: target.tls.ca_file.as_ref().map(PathBuf::from), verify: target.tls.verify },
        tcp_user_timeout: duration(target.tcp_user_timeout),
        overflow_phrases: plan.limits.context_overflow_substrings.clone(),
        keep_text: counts_on_our_side(plan) || plan.output.responses,
        ..WireOptions::default()
    };
    options.validate().map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(options)
}

/// The server in `target.mock`.
pub(crate) fn mock(plan: &ResolvedPlan) -> Result<Option<MockOptions>, Failure> {
    let Some(map) = &plan.target.mock else { return Ok(None) };
    let options: MockOptions = serde_json::from_value(Value::Object(map.clone()))
        .map_err(|error| Failure::Usage(format!("target.mock: {error}")))?;
    options.validate().map_err(|error| Failure::Usage(format!("target.mock: {error}")))?;
    Ok(Some(options))
}

/// What prompts are made of.
pub(crate) fn text_kind(plan: &ResolvedPlan) -> TextKind {
    match plan.corpus.text.as_str() {
        "sonnet" => TextKind::Sonnet,
        "random" => TextKind::Random,
        _ => TextKind::Coding,
    }
}

/// How the prompts' lengths can be trusted, for the results. Where nothing adds up, requests chosen evenly over the
/// corpus are counted.
pub(crate) fn text_facts(plan: &ResolvedPlan, text: &CorpusText) -> TextFacts {
    let exact = text.pool().report().exactness != Exactness::Approximate;
    let measured = (!exact).then(|| verify_tokens(text, Some(DRIFT_SAMPLE)));
    TextFacts {
        exact,
        reads_like_code: text.pool().report().exactness == Exactness::Lines,
        fallback: text.pool().report().fallback.clone(),
        max_diff: measured.as_ref().map_or(0, |report| report.max_diff),
        mean_diff: measured.as_ref().map_or(0.0, |report| to_millionths(report.mean_diff)),
        trimmed: trimmed(plan, text),
    }
}

/// What the tokenizer's chat template takes off, if there is one to be found that can be tried.
fn trimmed(plan: &ResolvedPlan, text: &CorpusText) -> Option<TrimmedFacts> {
    let template = ChatTemplate::load_local(&plan.tokenizer.source, Some(&plan.tokenizer.revision)).ok()?;
    let trimming = text.trimmed_by(&template).ok()??;
    (trimming.shorter > 0).then_some(TrimmedFacts {
        messages: trimming.messages,
        shorter: trimming.shorter,
        mean_tokens: to_millionths(trimming.mean_tokens),
        max_tokens: trimming.max_tokens,
    })
}

/// The text, told to count input lengths with the tokenizer's chat template where the plan asks for it.
pub(crate) fn templated(plan: &ResolvedPlan, text: CorpusText) -> Result<CorpusText, Failure> {
    if !plan.tokenizer.apply_chat_template {
        return Ok(text);
    }
    if !counts_on_our_side(plan) {
        tracing::info!(
            "tokenizer.apply_chat_template has no effect: input lengths are the server's (token_counts: server)"
        );
        return Ok(text);
    }
    text.pool().tokenizer().complete().map_err(Failure::of)?;
    let template = ChatTemplate::load(&plan.tokenizer.source, Some(&plan.tokenizer.revision)).map_err(Failure::of)?;
    let origin = template.origin().display().to_string();
    let text = text.with_chat_template(template, plan.cache_bust.target).map_err(Failure::of)?;
    let how = match text.chat_template_cost() {
        Some(ChatTemplateCost::Roles) => "what it adds depends on the roles alone",
        Some(ChatTemplateCost::Ends) => "what it adds depends on the ends of each message",
        _ => "what it adds depends on the whole text, so every prompt is rendered and counted in full",
    };
    tracing::info!("input lengths include the chat template of {origin}; {how}");
    Ok(text)
}

/// What a user should know of the prompts' text.
pub(crate) fn text_warnings(text: &CorpusText) -> Vec<String> {
    let report = text.pool().report();
    let mut lines = text.warnings();
    match report.exactness {
        Exactness::Lines => {}
        Exactness::WordsOnly if report.kind == TextKind::Random => {}
        Exactness::WordsOnly => lines.push(
            "with this tokenizer only rows of words add up exactly: prompts have the recorded token counts, but do not read like code"
                .into(),
        ),
        _ => lines.push(
            "with this tokenizer no text adds up exactly: prompt lengths are approximate; see `inspect --verify-tokens`".into(),
        ),
    }
    if let Some(why) = &report.fallback {
        lines.push(format!("why: {why}"));
    }
    lines
}

/// A request's body with the scenario's extra inputs, without a marker (which differs from run to run).
pub(crate) fn sample_body(text: Arc<CorpusText>, template: &Arc<SessionTemplate>, at: PromptAt) -> Vec<u8> {
    let shop = RequestShop {
        prompts: text,
        identity: Identity::new("000000000000"),
        models: Vec::new(),
        count_prompts: false,
    };
    let play = PlayIdentity { template: at.template, lane: LaneIndex(0), play: PlayNumber(0), marker: None };
    let mut stream = StreamState::new(Arc::new(shop), template.clone(), &play, at.conversation, 0);
    let go = Go {
        key: RequestKey(0),
        session_num: 0,
        phase: Phase::Profiling,
        turn: at.turn,
        due: Moment::default().replay,
        issued: Moment::default(),
        phase_skipped: Nanos(0),
        one_token: false,
    };
    let mut options = WireOptions::default();
    options.extra_inputs.insert("ignore_eos".into(), json!(true));
    stream.go(go).map(|request| agentx_wire::render_body(&options, &request)).unwrap_or_default()
}

/// The scenario, as the stamp needs it.
pub(crate) fn scenario_facts(loaded: &Loaded) -> Option<ScenarioFacts> {
    loaded.scenario.as_ref().map(|scenario| ScenarioFacts {
        name: scenario.name.clone(),
        version: scenario.version,
        sha256: scenario.sha256.clone(),
        valid: loaded.outcome.valid.unwrap_or(false),
        reasons: loaded.outcome.reasons.clone(),
        coverage_ratio: scenario.checks.metric_coverage_ratio,
        coverage_min_seconds: scenario.checks.metric_coverage_min_seconds.unwrap_or(0.0),
        overflow_rate_limit: loaded.plan.limits.context_overflow_rate,
    })
}

/// What the exports say besides records and journal.
pub(crate) fn export_facts(
    loaded: &Loaded,
    dir: PathBuf,
    dataset: Option<Value>,
    cancel_exit_zero: bool,
) -> ExportFacts {
    let plan = &loaded.plan;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    ExportFacts {
        scenario: scenario_facts(loaded),
        input_config: input_config(plan),
        plan: plan.to_json(),
        provenance: serde_json::to_value(&loaded.provenance).unwrap_or_default(),
        environment: loaded.environment.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        preset_defaults_overridden: loaded.preset_defaults_overridden.iter().map(|d| d.key.clone()).collect(),
        deviations: loaded.deviations.iter().map(|d| format!("{}={}", d.key, text(&d.value))).collect(),
        cli_command: Some(loaded.command_line.clone()),
        dataset,
        models: plan.model.names.clone(),
        cancel_exit_zero,
        html: true,
        server_formats: plan.metrics.server.formats.clone(),
        log_file: Some(dir.join("logs/agentx.log")),
        ..metric_facts(plan, dir)
    }
}

/// What the metrics depend on.
pub(crate) fn metric_facts(plan: &ResolvedPlan, dir: PathBuf) -> ExportFacts {
    ExportFacts {
        prefix: plan.output.prefix.clone(),
        level: export_level(plan),
        slice_duration: plan.output.slice_duration.map(|seconds| seconds.0),
        token_counts: if counts_on_our_side(plan) { TokenCounts::Client } else { TokenCounts::Server },
        goodput: plan.metrics.goodput.clone().unwrap_or_default().into_iter().collect(),
        osl_mismatch: OslMismatch {
            percent: plan.metrics.osl_mismatch.percent,
            tokens: plan.metrics.osl_mismatch.max_tokens as f64,
        },
        usage_discrepancy_percent: plan.metrics.usage_diff_percent,
        ..ExportFacts::new(dir)
    }
}
