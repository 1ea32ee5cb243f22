//! Invariants on generated data.

use agentx_types::{Phase, Usage};
use proptest::prelude::*;

use crate::metrics::{PERCENTILES, Window, curves, distribution};
use crate::{Gaps, Row};

use super::support::{Req, WALL, answer};

/// The textbook formula, on a sorted copy.
fn naive_percentile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = q / 100.0 * (sorted.len() - 1) as f64;
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    sorted[low] + (rank - rank.floor()) * (sorted[high] - sorted[low])
}

fn requests() -> impl Strategy<Value = Vec<Req>> {
    let request = (0.0..5000.0_f64, 0.0..500.0_f64, prop::collection::vec(0_u32..50, 0..20), 1_u64..40, 0_u64..5000);
    prop::collection::vec(request, 1..20).prop_map(|raw| {
        raw.into_iter()
            .enumerate()
            .map(|(number, (start, ttft, gaps, osl, isl))| {
                let mut chunks = vec![start + ttft];
                chunks.extend(gaps.iter().scan(start + ttft, |at, gap| {
                    *at += f64::from(*gap);
                    Some(*at)
                }));
                let last = chunks.last().copied().unwrap_or(start);
                Req {
                    chunks,
                    last_event: last + 3.0,
                    end: last + 4.0,
                    usage: Some(Usage { prompt: Some(isl), completion: Some(osl), ..Usage::default() }),
                    ..answer(number as u64, Phase::Profiling, start, 1)
                }
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn percentiles_equal_the_naive_formula(values in prop::collection::vec(-1e6..1e6_f64, 1..200)) {
        let stats = distribution(values.clone()).unwrap();
        for q in PERCENTILES {
            let expected = naive_percentile(&values, f64::from(q));
            prop_assert!((stats.p(q).unwrap() - expected).abs() <= 1e-9 * expected.abs().max(1.0));
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        prop_assert!((stats.std.unwrap() - variance.sqrt()).abs() <= 1e-6 * variance.sqrt().max(1.0));
    }

    #[test]
    fn averages_over_time_are_integrals(requests in requests()) {
        let rows: Vec<Row> = requests.iter().map(Req::row).collect();
        let end = rows.iter().map(|row| row.end_ns).max().unwrap();
        let window = Window { start_ns: WALL, end_ns: end + 1_000_000 };
        let seconds = window.seconds().unwrap();
        let curves = curves(rows.iter(), window);
        let integral = |tag: &str| {
            curves.iter().find(|(name, _)| *name == tag).and_then(|(_, stats)| stats.avg).unwrap_or(0.0) * seconds
        };
        let close = |tag: &str, expected: f64| {
            let ours = integral(tag);
            prop_assert!((ours - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{tag}: {ours} is not {expected}");
            Ok(())
        };
        let sum = |value: &dyn Fn(&Row) -> f64| rows.iter().map(value).sum::<f64>();
        let ttft = |row: &Row| row.timings().unwrap().ttft;
        close("effective_concurrency", sum(&|row| (row.end_ns - row.start_ns) as f64 / 1e9))?;
        close("effective_prefill_concurrency", sum(&|row| ttft(row) as f64 / 1e9))?;
        let prefilled = sum(&|row| if ttft(row) > 0 { row.tokens.isl.unwrap() as f64 } else { 0.0 });
        close("effective_prefill_throughput", prefilled)?;
        let decoded = sum(&|row| (row.tokens.osl.unwrap() - 1) as f64);
        close("effective_decode_throughput", decoded)?;
        close("effective_total_throughput", prefilled + decoded)?;
        for (tag, stats) in &curves {
            prop_assert!(stats.min <= stats.p(50) && stats.p(50) <= stats.p(99) && stats.p(99) <= stats.max, "{tag}");
            prop_assert!(stats.min.unwrap() >= 0.0, "{tag}");
        }
    }

    /// What the journal holds of the client's load is read back as it was.
    #[test]
    fn six_places_read_back_as_written(value in -1e9_f64..1e9) {
        let value = agentx_types::to_millionths(value);
        let text = serde_json::to_string(&value).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let back: f64 = serde_json::from_str(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(back.to_bits(), value.to_bits(), "{}", text);
    }

    #[test]
    fn gaps_keep_every_nanosecond(gaps in prop::collection::vec(0_i64..10_000_000_000, 0..50)) {
        let packed = Gaps::from_ns(gaps.iter().copied());
        prop_assert_eq!(packed.load().iter().collect::<Vec<_>>(), gaps);
    }

    #[test]
    fn a_line_gives_back_its_row(requests in requests()) {
        for request in requests {
            let row = request.row();
            let mut line = Vec::new();
            crate::line::write_line(&mut line, &request.record(), &row, crate::TokenCounts::Server, WALL, None).unwrap();
            let text = std::str::from_utf8(&line).unwrap();
            prop_assert_eq!(text.matches('\n').count(), 1);
            prop_assert_eq!(crate::line::read_line(text).unwrap(), row);
        }
    }
}
