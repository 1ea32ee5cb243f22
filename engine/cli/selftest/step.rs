//! One step of a self-test: a run of so many lanes, and what it came to.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use agentx_report::metrics::distribution;
use agentx_report::{FileNames, Row, RowResult, RunData, read_dir};
use agentx_types::{Phase, RunClock};
use serde::Serialize;
use serde_json::json;

use super::host::{Server, Usage, agentx, watch};
use crate::failure::Failure;

/// Time to the first token and between tokens of the simulated server, ms.
pub(super) const SERVER: [&str; 4] = ["--ttft-ms", "50", "--itl-ms", "10"];
/// Longest answer, tokens: 3 s, so that a step of a few seconds sees whole answers.
const LONGEST_ANSWER: u32 = 300;
/// Seconds of profiling that are not measured: all lanes begin at once, as no real run does, and part after their first
/// answers, which differ in length.
const SETTLE_SECONDS: u32 = 1;

/// What a step came to, over the seconds that are measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Step {
    /// Lanes.
    pub(super) lanes: u32,
    /// Content chunks that arrived in a second.
    pub(super) chunks_per_second: f64,
    /// Requests that left.
    pub(super) requests: u64,
    /// Requests that failed, those of the unmeasured second too.
    pub(super) errors: u64,
    /// Processor time of the client for each chunk, requests and all, µs.
    pub(super) client_cpu_us_per_chunk: Option<f64>,
    /// Processors that the client used.
    pub(super) client_cores: Option<f64>,
    /// Processors that the simulated server used; it has one thread.
    pub(super) server_cores: Option<f64>,
    /// Median of how late requests left, ms; none when none left.
    pub(super) lateness_p50_ms: Option<f64>,
    /// 99th percentile of the same, ms.
    pub(super) lateness_p99_ms: Option<f64>,
    /// How late the event loop of the client's slowest thread was over all of profiling, ms: 99th percentile.
    pub(super) loop_lag_p99_ms: Option<f64>,
    /// Most memory of the client, MB (10⁶ bytes).
    pub(super) memory_mb: Option<f64>,
}

/// Why a step has no figures: what the run said of its failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoFigures(pub(super) String);

/// Runs `lanes` lanes and measures them for `seconds` against `server`, with files in `folder`.
pub(super) fn measure(
    server: &Server,
    lanes: u32,
    seconds: u32,
    folder: &Path,
) -> Result<Result<Step, NoFigures>, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("cannot write to {}: {error}", folder.display()));
    let (plan, out, log) = (folder.join("plan.yaml"), folder.join("out"), folder.join("stderr.log"));
    std::fs::write(&plan, plan_text(server.port, lanes, seconds, &out)).map_err(failed)?;
    let log_file = File::create(&log).map_err(failed)?;
    let clock = RunClock::start();
    let client = agentx(&["run"])?
        .arg(&plan)
        .arg("--overwrite")
        .stdout(Stdio::null())
        .stderr(log_file)
        .spawn()
        .map_err(|error| Failure::Failed(format!("cannot start a run: {error}")))?;
    let (of_client, of_server, ended_well) = watch(client, server, clock)?;
    if !ended_well {
        return Ok(Err(NoFigures(complaint(&std::fs::read_to_string(&log).unwrap_or_default()))));
    }
    let data = read_dir(&out, &FileNames::new(None)).map_err(Failure::of)?;
    let step = figures(&data, lanes, seconds, &of_client, &of_server);
    Ok(step.ok_or_else(|| NoFigures("it ended before its profiling began".into())))
}

/// The last error in a log, else its last line.
fn complaint(log: &str) -> String {
    let mut lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| line.starts_with("error: ") || line.contains(" ERROR ");
    let last = lines.clone().rfind(is_error).or_else(|| lines.next_back());
    last.unwrap_or("it said nothing").to_owned()
}

/// Short prompts, no helpers and little idle time, so that the client's work is with chunks, not the server's with
/// prompts. JSON is YAML.
fn plan_text(port: u16, lanes: u32, seconds: u32, out: &Path) -> String {
    json!({
        "agentx": 1,
        "title": "selftest",
        "target": {
            "urls": [format!("http://127.0.0.1:{port}")],
            "streaming": true,
            "extra_inputs": {"ignore_eos": true},
        },
        "model": {"names": ["selftest"]},
        "tokenizer": {"source": "builtin", "token_counts": "server"},
        "corpus": {
            "synthetic": {"traces": 64, "seed": 1, "max_context": 8192, "helpers": 0, "pace": 0.0002},
            "max_output_tokens": LONGEST_ANSWER,
        },
        "load": {"concurrency": lanes},
        "timing": {"turn_delay_cap": 0.5, "system_idle_cap": 1},
        "profiling": {"duration": SETTLE_SECONDS + seconds, "grace": 10},
        "cache_bust": {"target": "first_turn_prefix"},
        "metrics": {"server": {"enabled": false}},
        "sampling": {"seed": 1},
        "output": {"dir": out},
        "ui": {"type": "none"},
    })
    .to_string()
}

/// The step's figures; none when profiling never began.
fn figures(data: &RunData, lanes: u32, seconds: u32, client: &Usage, server: &Usage) -> Option<Step> {
    const SECOND_NS: i64 = 1_000_000_000;
    let start_ns = data.journal.phase(Phase::Profiling)?.summary.start_wall_ns + i64::from(SETTLE_SECONDS) * SECOND_NS;
    let end_ns = start_ns + i64::from(seconds) * SECOND_NS;
    let measured = start_ns..end_ns;
    let all = data.rows_of(Phase::Profiling);
    let chunks = all.iter().flat_map(|row| chunk_times(row)).filter(|at| measured.contains(at)).count() as f64;
    let errors = all.iter().filter(|row| matches!(row.result, RowResult::Failed(_))).count() as u64;
    let left: Vec<&Row> = all.into_iter().filter(|row| measured.contains(&row.start_ns)).collect();
    let late = left.iter().filter_map(|row| row.lateness_ns).map(|ns| ns.max(0) as f64 / 1e6).collect();
    let lateness = distribution(late);
    let wall = f64::from(seconds);
    let of_client = client.between(start_ns, end_ns);
    Some(Step {
        lanes,
        chunks_per_second: chunks / wall,
        requests: left.len() as u64,
        errors,
        client_cpu_us_per_chunk: of_client.filter(|_| chunks > 0.0).map(|cpu| cpu * 1e6 / chunks),
        client_cores: of_client.map(|cpu| cpu / wall),
        server_cores: server.between(start_ns, end_ns).map(|cpu| cpu / wall),
        lateness_p50_ms: lateness.as_ref().and_then(|stats| stats.p(50)),
        lateness_p99_ms: lateness.as_ref().and_then(|stats| stats.p(99)),
        loop_lag_p99_ms: loop_lag(data),
        memory_mb: client.peak_mb,
    })
}

fn loop_lag(data: &RunData) -> Option<f64> {
    let threads = &data.journal.end.as_ref()?.client.threads;
    threads.iter().map(|thread| thread.lag_p99_ms).max_by(f64::total_cmp)
}

/// When the content chunks of a request arrived, Unix epoch ns.
fn chunk_times(row: &Row) -> impl Iterator<Item = i64> {
    let timings = match &row.result {
        RowResult::Valid(timings) => Some(timings),
        RowResult::Failed(_) => None,
    };
    timings.into_iter().flat_map(|timings| {
        let first = row.start_ns + timings.ttft;
        let gaps = timings.gaps.load();
        let later = (0..gaps.len()).filter_map(move |index| gaps.get(index)).scan(first, |at, gap| {
            *at += gap;
            Some(*at)
        });
        std::iter::once(first).chain(later)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complaint_of_a_run_is_its_last_error() {
        let log = "1:00Z ERROR a: first\n1:01Z  INFO b\n\nerror: no server\n  help: start one\n";
        assert_eq!(complaint(log), "error: no server");
        assert_eq!(complaint("killed\n\n"), "killed");
        assert_eq!(complaint(""), "it said nothing");
    }
}
