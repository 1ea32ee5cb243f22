//! From the command line to a loaded plan.

use std::collections::BTreeMap;

use agentx_plan::{Disk, Loaded, PlanRequest, PlanSource, load};
use serde_json::{Value, json};

use crate::args::{PlanArgs, RunArgs};
use crate::failure::Failure;

/// Loads the plan that `args` name, with options of the command line that stand for keys.
pub(crate) fn load_plan(args: &PlanArgs, options: Vec<(&'static str, &'static str, Value)>) -> Result<Loaded, Failure> {
    let request = PlanRequest {
        plan: PlanSource::Path(args.plan.clone()),
        overlays: args.overlay.clone(),
        sets: args.sets.clone(),
        unsafe_override: args.unsafe_override,
        options,
        scenario_dir: args.scenario_dir.clone(),
        environment: environment(),
        files: &Disk,
        draw_seed: &draw_seed,
        command_line: command_line(),
    };
    Ok(load(&request)?)
}

/// Loads the plan of a run.
pub(crate) fn load_run(args: &RunArgs) -> Result<Loaded, Failure> {
    let mut options = Vec::new();
    if let Some(dir) = &args.out {
        options.push(("--out", "output.dir", json!(dir.to_string_lossy())));
    }
    if args.events {
        options.push(("--events", "output.events", json!(true)));
    }
    if let Some(ui) = args.ui {
        options.push(("--ui", "ui.type", json!(ui.name())));
    }
    load_plan(&args.plan, options)
}

pub(crate) fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// What was typed, quoted where a shell would need it.
pub(crate) fn command_line() -> String {
    let plain =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:@,".contains(c));
    let quote = |word: String| if plain(&word) { word } else { format!("'{}'", word.replace('\'', r"'\''")) };
    let words: Vec<String> = std::env::args().skip(1).map(quote).collect();
    format!("agentx {}", words.join(" "))
}

/// A fresh 63-bit number, from the operating system's randomness by way of a random UUID.
pub(crate) fn draw_seed() -> u64 {
    (random_bits() >> 1) & (u64::MAX >> 1)
}

/// 12 hex digits, fresh for each run.
pub(crate) fn draw_benchmark_id() -> String {
    format!("{:012x}", random_bits() & 0xffff_ffff_ffff)
}

fn random_bits() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds each of these from the operating system.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
