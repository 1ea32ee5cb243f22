//! `agentx selftest`: how many lanes this host drives, and what stops it from driving more.

mod host;
mod step;

use std::io::Write;

use agentx_wire::{LimitError, ensure_open_files};
use serde_json::json;

use crate::CommandResult;
use crate::args::{SelftestArgs, TextOrJson};
use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::out;
use host::Server;
use step::{NoFigures, SERVER, Step, measure};

/// A host drives so many lanes if 99 in 100 requests leave no later than this, and its event loops lag no more, ms.
const LATENESS_LIMIT_MS: f64 = 10.0;
/// The simulated server has one thread: at this share of a processor it, not the client, is being measured.
const SERVER_BUSY_CORES: f64 = 0.9;
/// A lane's connections: one that is open and one that is being opened.
const CONNECTIONS_A_LANE: u64 = 2;

/// The command.
pub(crate) fn selftest(args: &SelftestArgs) -> CommandResult {
    if args.min_lanes > args.max_lanes {
        return Err(Failure::Usage(format!("--min-lanes {} is above --max-lanes {}", args.min_lanes, args.max_lanes)));
    }
    // Raises the soft limit as well: the children inherit it.
    ensure_open_files(connections(args.min_lanes)).map_err(Failure::of)?;
    let interrupts = Interrupts::default();
    let _listening = interrupts.channel()?;
    let server = Server::start(&SERVER)?;
    let folder =
        tempfile::tempdir().map_err(|error| Failure::Failed(format!("cannot make a temporary folder: {error}")))?;
    let text = args.format == TextOrJson::Text;
    if text {
        show(HEADER)?;
    }
    let mut driven: Vec<Step> = Vec::new();
    let mut steps: Vec<Step> = Vec::new();
    let limit = loop {
        let lanes = match next_lanes(args, steps.last(), |lanes| ensure_open_files(connections(lanes)).map(|_| ())) {
            Ok(lanes) => lanes,
            Err(limit) => break limit,
        };
        let measured = measure(&server, lanes, args.seconds, folder.path())?;
        if interrupts.raised() {
            return Ok(130);
        }
        let step = match measured {
            Ok(step) => step,
            Err(NoFigures(said)) => break format!("the run of {lanes} lanes failed: {said}"),
        };
        if text {
            show(&line(&step))?;
        }
        steps.push(step.clone());
        let verdict = judge(&step);
        if verdict.driven {
            driven.push(step);
        }
        if let Some(limit) = verdict.limit {
            break limit;
        }
    };
    let most = driven.last();
    match args.format {
        TextOrJson::Text => out::print(&closing(most, args.min_lanes, &limit))?,
        TextOrJson::Json => {
            let document = json!({
                "steps": steps,
                "lanes": most.map_or(0, |step| step.lanes),
                "chunks_per_second": most.map_or(0.0, |step| step.chunks_per_second),
                "limit": limit,
            });
            out::print(&format!("{document:#}"))?;
        }
    }
    Ok(0)
}

fn connections(lanes: u32) -> u64 {
    u64::from(lanes) * CONNECTIONS_A_LANE
}

/// Lanes of the step after `last`: twice as many, up to the most that is asked for; or why there is no such step.
fn next_lanes(
    args: &SelftestArgs,
    last: Option<&Step>,
    open_files: impl FnOnce(u32) -> Result<(), LimitError>,
) -> Result<u32, String> {
    let Some(last) = last else { return Ok(args.min_lanes) };
    if last.lanes >= args.max_lanes {
        return Err(format!("--max-lanes {}: it may drive more", args.max_lanes));
    }
    let lanes = last.lanes.saturating_mul(2).min(args.max_lanes);
    open_files(lanes).map_err(|error| format!("open files, for {lanes} lanes: {error}"))?;
    Ok(lanes)
}

/// What a step says of the host.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    /// The host drives so many lanes.
    driven: bool,
    /// Why more lanes are not tried.
    limit: Option<String>,
}

fn judge(step: &Step) -> Verdict {
    let late = step.lateness_p99_ms.filter(|p99| *p99 > LATENESS_LIMIT_MS);
    let lagging = step.loop_lag_p99_ms.filter(|p99| *p99 > LATENESS_LIMIT_MS);
    let busy = step.server_cores.filter(|cores| *cores >= SERVER_BUSY_CORES);
    let (driven, limit) = if step.errors > 0 {
        (false, Some(format!("{} requests failed at {} lanes", step.errors, step.lanes)))
    } else if let Some(p99) = late {
        let lanes = step.lanes;
        let limit = format!("dispatch lateness, p99 {p99:.1} ms at {lanes} lanes ({LATENESS_LIMIT_MS} ms are allowed)");
        (false, Some(limit))
    } else if let Some(p99) = lagging {
        let lanes = step.lanes;
        (
            false,
            Some(format!(
                "lag of the client's event loop, p99 {p99:.1} ms at {lanes} lanes ({LATENESS_LIMIT_MS} ms are allowed)"
            )),
        )
    } else {
        let percent = busy.map(|cores| cores * 100.0);
        let limit = percent.map(|percent| {
            format!("the simulated server, whose one thread was busy {percent:.0} % of the time: it may drive more")
        });
        (true, limit)
    };
    Verdict { driven, limit }
}

const HEADER: &str = " lanes   chunks/s  requests  errors  CPU us/chunk  client cores  server cores  late p50 ms  late p99 ms  lag p99 ms  memory MB";

fn line(step: &Step) -> String {
    let or_dash =
        |value: Option<f64>, digits: usize| value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"));
    format!(
        "{:>6} {:>10.0} {:>9} {:>7} {:>13} {:>13} {:>13} {:>12} {:>12} {:>11} {:>10}",
        step.lanes,
        step.chunks_per_second,
        step.requests,
        step.errors,
        or_dash(step.client_cpu_us_per_chunk, 2),
        or_dash(step.client_cores, 2),
        or_dash(step.server_cores, 2),
        or_dash(step.lateness_p50_ms, 2),
        or_dash(step.lateness_p99_ms, 2),
        or_dash(step.loop_lag_p99_ms, 2),
        or_dash(step.memory_mb, 0),
    )
}

fn closing(most: Option<&Step>, fewest: u32, limit: &str) -> String {
    match most {
        Some(step) => {
            format!("this host drives {} lanes at {:.0} chunks/s; limit: {limit}", step.lanes, step.chunks_per_second)
        }
        None => format!("this host drives fewer than {fewest} lanes; limit: {limit}"),
    }
}

/// A line as soon as it is known: the next one takes seconds.
fn show(line: &str) -> Result<(), Failure> {
    let mut answer = out::answer();
    writeln!(answer, "{line}")?;
    answer.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(lanes: u32) -> Step {
        Step {
            lanes,
            chunks_per_second: 4812.4,
            requests: 230,
            errors: 0,
            client_cpu_us_per_chunk: Some(9.234),
            client_cores: Some(0.044),
            server_cores: None,
            lateness_p50_ms: Some(0.21),
            lateness_p99_ms: Some(1.5),
            loop_lag_p99_ms: Some(1.31),
            memory_mb: Some(61.4),
        }
    }

    fn args(max_lanes: u32) -> SelftestArgs {
        SelftestArgs { seconds: 5, min_lanes: 16, max_lanes, format: TextOrJson::Text }
    }

    #[test]
    fn lanes_double_up_to_the_most_asked_for_or_what_files_allow() {
        let enough = |_| Ok(());
        let next = |max, last: u32| next_lanes(&args(max), Some(&step(last)), enough);
        assert_eq!(next_lanes(&args(100), None, enough), Ok(16));
        assert_eq!((next(100, 16), next(100, 64)), (Ok(32), Ok(100)));
        assert_eq!(next(100, 100), Err("--max-lanes 100: it may drive more".into()));
        let hard = LimitError::TooLow { needed: 192, connections: 128, hard: 100 };
        let refused = next_lanes(&args(100), Some(&step(32)), |_| Err(hard)).unwrap_or_else(|text| {
            assert!(text.starts_with("open files, for 64 lanes: 192 open files are needed"), "{text}");
            0
        });
        assert_eq!(refused, 0);
    }

    #[test]
    fn errors_and_lateness_are_the_hosts_limit_and_a_busy_server_is_not() {
        assert_eq!(judge(&step(16)), Verdict { driven: true, limit: None });
        let late = judge(&Step { lateness_p99_ms: Some(10.1), server_cores: Some(1.0), ..step(64) });
        let failed = judge(&Step { errors: 3, lateness_p99_ms: Some(99.0), ..step(64) });
        let lagging = judge(&Step { loop_lag_p99_ms: Some(14.2), ..step(64) });
        let busy = judge(&Step { server_cores: Some(0.93), ..step(64) });
        let driven = [&late, &failed, &lagging, &busy].map(|verdict| verdict.driven);
        assert_eq!(driven, [false, false, false, true]);
        let limits = [late, failed, lagging, busy].map(|verdict| verdict.limit.unwrap_or_default());
        insta::assert_snapshot!(limits.join("\n"));
    }

    #[test]
    fn table_and_closing_line() {
        let rows = [HEADER.to_owned(), line(&step(16)), line(&Step { chunks_per_second: 140_000.0, ..step(8192) })];
        let closings = [closing(Some(&step(16)), 16, "why"), closing(None, 16, "why")];
        insta::assert_snapshot!([rows.join("\n"), closings.join("\n")].join("\n\n"));
    }
}
