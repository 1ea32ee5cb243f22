//! The client's own figures: a client that was too slow must show (`wire.md` §6).

use agentx_types::{ClientStats, Phase};
use serde_json::{Map, Value, json};

use crate::metrics::{Stats, distribution};
use crate::rundata::RunData;

/// A client is saturated when its lateness, or the lag of one of its threads, is above this at the 99th percentile, ms.
const SATURATED_P99_MS: f64 = 10.0;

/// What the client knows of itself, over the profiling phase.
pub(crate) struct Client {
    /// How late requests left, ms.
    pub(crate) lateness: Option<Stats>,
    /// The engine's figures; none when the run ended without its last line.
    pub(crate) stats: Option<ClientStats>,
    /// Why the client counts as saturated, if it does.
    pub(crate) saturated: Option<String>,
}

impl Client {
    pub(crate) fn of(run: &RunData) -> Self {
        let rows = run.rows.iter().filter(|row| row.phase == Phase::Profiling);
        let lateness = distribution(rows.filter_map(|row| row.lateness_ns).map(|ns| ns.max(0) as f64 / 1e6).collect());
        let stats = run.journal.end.as_ref().map(|end| end.client.clone());
        let saturated = saturated(lateness.as_ref(), stats.as_ref());
        Self { lateness, stats, saturated }
    }

    /// The `client` object of the summary.
    pub(crate) fn json(&self) -> Value {
        let mut client = Map::new();
        client.insert("saturated".into(), self.saturated.is_some().into());
        if let Some(reason) = &self.saturated {
            client.insert("saturated_reason".into(), reason.clone().into());
        }
        if let Some(stats) = &self.lateness {
            let value = json!({"avg": stats.avg, "p50": stats.p(50), "p99": stats.p(99), "max": stats.max});
            client.insert("lateness_ms".into(), value);
        }
        if let Some(stats) = &self.stats {
            if let Some(lag) = worst_lag(stats) {
                client.insert("loop_lag_p99_ms".into(), lag.lag_p99_ms.into());
            }
            if let Some(share) = stats.cpu_share {
                client.insert("cpu_share".into(), share.into());
            }
            if !stats.threads.is_empty() {
                client.insert("threads".into(), json!(stats.threads));
            }
            client.insert("connections_opened".into(), stats.connections_opened.into());
            client.insert("connections_peak".into(), stats.connections_peak.into());
            client.insert("connection_retries".into(), stats.connection_retries.into());
            client.insert("bytes_sent".into(), stats.bytes_sent.into());
            client.insert("bytes_received".into(), stats.bytes_received.into());
        }
        Value::Object(client)
    }

    /// One line for the console and the log, if the client was too slow.
    pub(crate) fn warning(&self) -> Option<String> {
        let reason = self.saturated.as_ref()?;
        Some(format!(
            "the client was saturated: {reason}; latencies are the client's as well as the server's. Raise \
             engine.io_threads, give the client more cores, or lower load.concurrency"
        ))
    }
}

fn worst_lag(stats: &ClientStats) -> Option<&agentx_types::ThreadLoad> {
    stats.threads.iter().max_by(|a, b| a.lag_p99_ms.total_cmp(&b.lag_p99_ms))
}

fn saturated(lateness: Option<&Stats>, stats: Option<&ClientStats>) -> Option<String> {
    let late = lateness.and_then(|stats| stats.p(99)).filter(|ms| *ms > SATURATED_P99_MS);
    let late = late.map(|ms| format!("one request in a hundred left {ms:.1} ms late or more"));
    let lag = stats.and_then(worst_lag).filter(|thread| thread.lag_p99_ms > SATURATED_P99_MS);
    let lag = lag.map(|thread| {
        format!("the event loop of thread {} lagged {:.1} ms at the 99th percentile", thread.name, thread.lag_p99_ms)
    });
    let reasons: Vec<String> = late.into_iter().chain(lag).collect();
    (!reasons.is_empty()).then(|| format!("{} (limit {SATURATED_P99_MS} ms)", reasons.join(", and ")))
}

#[cfg(test)]
mod tests {
    use agentx_types::ThreadLoad;

    use super::*;

    fn with_lag(lags: &[f64]) -> ClientStats {
        let thread = |(index, lag): (usize, &f64)| ThreadLoad {
            name: format!("wire {index}"),
            lag_p99_ms: *lag,
            ..ThreadLoad::default()
        };
        ClientStats { threads: lags.iter().enumerate().map(thread).collect(), ..ClientStats::default() }
    }

    #[test]
    fn lateness_or_the_lag_of_one_thread_above_ten_milliseconds_saturates() {
        let late = |ms: f64| distribution(vec![ms; 100]);
        assert_eq!(saturated(late(10.0).as_ref(), Some(&with_lag(&[10.0, 1.1]))), None);
        assert_eq!(saturated(None, None), None);
        assert_eq!(
            saturated(late(10.5).as_ref(), Some(&with_lag(&[1.0]))).as_deref(),
            Some("one request in a hundred left 10.5 ms late or more (limit 10 ms)")
        );
        assert_eq!(
            saturated(late(0.2).as_ref(), Some(&with_lag(&[1.0, 31.04]))).as_deref(),
            Some("the event loop of thread wire 1 lagged 31.0 ms at the 99th percentile (limit 10 ms)")
        );
        let both = saturated(late(12.0).as_ref(), Some(&with_lag(&[11.0])));
        assert!(both.is_some_and(|text| text.contains("late or more, and the event loop")));
    }
}
