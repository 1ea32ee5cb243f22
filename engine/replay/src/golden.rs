//! Golden lines: instants, whole schedules and handoffs. Those on small made-up traces are here; all others are run when
//! the shared folder is there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentx_corpus::{CorpusOptions, SessionTemplate, load};
use agentx_types::{EventKind, OutcomeKind, Phase};
use serde_json::{Value, json};

use crate::options::{Pressure, ReplayOptions};
use crate::rig::{Setting, Simulated};
use crate::simulation::golden_latency;
use crate::{VirtualRun, first_uniform, lane_seed, lanes, t_star_ms};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn shared() -> PathBuf {
    std::env::var_os("AGENTX_SHARED").map_or_else(|| workspace().join("../shared"), PathBuf::from)
}

fn lines(path: &Path, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).filter(|line: &Value| line["kind"] == kind).collect()
}

/// Lines of `kind` that are in the repository, and those of the shared folder.
fn golden(kind: &str) -> Vec<Value> {
    let own = lines(&workspace().join("tests/data/golden/trajectories.jsonl"), kind);
    assert!(!own.is_empty());
    let others = lines(&shared().join("golden/trajectories.jsonl"), kind);
    let known: Vec<Value> = own.iter().map(|line| line["id"].clone()).collect();
    own.into_iter().chain(others.into_iter().filter(|line| !known.contains(&line["id"]))).collect()
}

fn trace_file(name: &str) -> Option<PathBuf> {
    let folders = [workspace().join("engine/corpus/tests/data/traces"), shared().join("traces")];
    let files = folders.iter().flat_map(|folder| ["json", "json.gz"].map(|end| folder.join(format!("{name}.{end}"))));
    files.into_iter().find(|file| file.is_file())
}

fn ms(value: &Value) -> Option<f64> {
    value.as_f64().map(|ms| ms / 1000.0)
}

/// Plays a golden line; nothing if one of its traces is not at hand.
fn play(line: &Value, options: ReplayOptions, skip_primers: bool) -> Option<Simulated> {
    let names = line["pool"].as_array().unwrap();
    let mut templates: Vec<Arc<SessionTemplate>> = Vec::new();
    for name in names {
        let file = trace_file(name.as_str().unwrap())?;
        templates.extend(load(&[file], &CorpusOptions::default()).unwrap().templates.into_iter().map(Arc::new));
    }
    let given: Vec<(String, f64)> = serde_json::from_value(line["lanes"].clone()).unwrap();
    let slow: Vec<(String, f64)> = serde_json::from_value(line["slow"].clone()).unwrap();
    let lanes = lanes::build_given(&templates, &given, &options).unwrap();
    let setting = Setting { templates, lanes, options, skip_primers, run: VirtualRun::default() };
    let run = setting.play(move |meta| (golden_latency(&slow, meta).as_seconds(), OutcomeKind::Ok));
    assert!(run.violations.is_empty(), "{}: {:#?}", line["id"], run.violations);
    Some(run)
}

fn options(line: &Value) -> ReplayOptions {
    let lanes = line["lanes"].as_array().unwrap().len() as u32;
    let mut options = ReplayOptions::scenario(lanes, 1);
    options.burst_phase_starts = line["burst"].as_bool().unwrap();
    options.system_idle_cap = ms(&line["system_idle_cap_ms"]);
    options.trace_idle_cap = ms(&line["trace_idle_cap_ms"]);
    options.grace = None;
    options
}

#[test]
fn every_instant() {
    for line in golden("t_star") {
        let number = |key: &str| line[key].as_u64().unwrap();
        let seed = lane_seed(number("random_seed"), line["trace"].as_str().unwrap(), number("lane") as u32);
        assert_eq!(seed.to_string(), line["lane_seed"].as_str().unwrap());
        let u = first_uniform(seed);
        assert!((u - line["u"].as_f64().unwrap()).abs() <= f64::EPSILON, "{}", line["id"]);
        let bounds: (f64, f64) = serde_json::from_value(line["bounds_ms"].clone()).unwrap();
        let ratio = (line["min_ratio"].as_f64().unwrap(), line["max_ratio"].as_f64().unwrap());
        // The reader of JSON may lose a number's last bit.
        let (found, wanted) = (t_star_ms(bounds, ratio, u), line["t_star_ms"].as_f64().unwrap());
        assert!((found - wanted).abs() <= f64::EPSILON * wanted, "{}: {found} instead of {wanted}", line["id"]);
    }
}

#[test]
fn every_schedule() {
    for line in golden("schedule") {
        let mut options = options(&line);
        options.duration = ms(&line["duration_ms"]);
        let Some(run) = play(&line, options, true) else { continue };
        let (id, expect) = (&line["id"], &line["expect"]);
        let summary = run.phase(Phase::Profiling);
        let mut rows = run.dispatches(Phase::Profiling);
        assert_eq!(rows.len() as u64, expect["dispatch_count"].as_u64().unwrap(), "{id}");
        let key = |row: &(f64, u32, String, u32)| ((row.0 * 1e5).round() as i64, row.1, row.2.clone(), row.3);
        let mut wanted: Vec<(f64, u32, String, u32)> = expect["dispatches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                let (at, lane, _, name, turn): (f64, u32, u64, String, u32) =
                    serde_json::from_value(row.clone()).unwrap();
                (at / 1000.0, lane, name, turn)
            })
            .collect();
        rows.sort_by_key(key);
        wanted.sort_by_key(key);
        for (row, wanted) in rows.iter().zip(&wanted) {
            let same = (row.0 - wanted.0).abs() < 1e-5 && (row.1, &row.2, row.3) == (wanted.1, &wanted.2, wanted.3);
            assert!(same, "{id}: {row:?} instead of {wanted:?}");
        }
        let counted = json!({
            "jumps": summary.idle.system_jumps,
            "trace_jumps": summary.idle.trace_jumps,
            "recycles": run.count(|kind| matches!(kind, EventKind::Recycle { .. })),
        });
        for (name, value) in counted.as_object().unwrap() {
            assert_eq!(&expect[name], value, "{id}: {name}");
        }
        let stats = serde_json::to_value(summary.branch_stats).unwrap();
        for (name, value) in expect["branch_stats"].as_object().unwrap() {
            assert_eq!(&stats[name], value, "{id}: {name}");
        }
    }
}

#[test]
fn every_handoff() {
    for line in golden("handoff") {
        let mut options = options(&line);
        options.duration = Some(0.001);
        options.pressure = Some(match line["requests_per_lane"].as_u64() {
            Some(quota) => Pressure::RequestsPerLane(quota as u32),
            None => Pressure::Duration(ms(&line["duration_ms"]).unwrap()),
        });
        let Some(run) = play(&line, options, false) else { continue };
        let mut reports: Vec<(u32, Value)> = Vec::new();
        for event in &run.events {
            if let EventKind::Handoff { .. } = event.kind {
                reports.push((event.lane.unwrap().0, serde_json::to_value(event).unwrap()));
            }
        }
        let wanted = line["handoff"].as_array().unwrap();
        assert_eq!(reports.len(), wanted.len());
        for (lane, report) in reports {
            let wanted = &wanted[lane as usize];
            assert_eq!(report["trace"], wanted["trace"], "{} lane {lane}", line["id"]);
            let (found, wanted) = (report["streams"].as_array().unwrap(), wanted["streams"].as_array().unwrap());
            assert_eq!(found.len(), wanted.len(), "{} lane {lane}", line["id"]);
            for (found, wanted) in found.iter().zip(wanted) {
                for key in ["conversation", "depth", "next_turn", "waiting", "joins"] {
                    assert_eq!(found[key], wanted[key], "{} lane {lane}: {key}", line["id"]);
                }
                let off = found["offset_ms"].as_f64().unwrap() - wanted["offset_ms"].as_f64().unwrap();
                assert!(off.abs() < 0.01, "{} lane {lane}: {found} instead of {wanted}", line["id"]);
            }
        }
    }
}
