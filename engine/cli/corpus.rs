//! `agentx corpus`: the published corpora, and made-up ones.

use std::fmt::Write as _;
use std::path::Path;

use agentx_corpus::Hub;
use agentx_corpus::synth::{Shape, SynthOptions, generate};
use agentx_plan::{published_corpora, resolve_alias};

use crate::CommandResult;
use crate::args::{CorpusShape, SynthArgs};
use crate::failure::Failure;
use crate::{logging, out};

/// `agentx corpus list`: alias, repository, and the revision in the local hub cache.
pub(crate) fn list() -> CommandResult {
    let hub = Hub::from_env();
    let rows: Vec<(String, String, String)> = published_corpora()
        .into_iter()
        .map(|(alias, repository)| {
            let cached = hub.cached_corpus(&repository).map_or_else(|| "-".to_string(), |file| file.revision);
            (alias, repository, cached)
        })
        .collect();
    let width = |column: fn(&(String, String, String)) -> &str| rows.iter().map(|row| column(row).len()).max();
    let (alias, repository) = (width(|row| &row.0).unwrap_or(0), width(|row| &row.1).unwrap_or(0));
    let mut text = format!("{:<alias$}  {:<repository$}  in the cache\n", "alias", "repository");
    for row in &rows {
        // Writing to a string cannot fail.
        writeln!(text, "{:<alias$}  {:<repository$}  {}", row.0, row.1, row.2).unwrap_or_default();
    }
    out::print(&text)?;
    Ok(0)
}

/// `agentx corpus fetch`: downloads a corpus, or its newest revision, and says where it is.
pub(crate) fn fetch(name: &str) -> CommandResult {
    logging::start("info", 0, None)?;
    let by_alias = resolve_alias(&name.replace('-', "_"));
    let repository = by_alias.or_else(|| name.contains('/').then(|| name.trim().to_owned())).ok_or_else(|| {
        Failure::Usage(format!(
            "`{name}` is no published corpus; `agentx corpus list` shows them, and OWNER/NAME names any dataset of the hub"
        ))
    })?;
    let file = Hub::from_env().fetch_corpus(&repository).map_err(Failure::of)?;
    tracing::info!("{repository} is at revision {}", file.revision);
    out::print(&file.path.display().to_string())?;
    Ok(0)
}

/// `agentx corpus synth`: writes one file a trace into a folder that holds no traces yet.
pub(crate) fn synth(args: &SynthArgs) -> CommandResult {
    let defaults = SynthOptions::default();
    let options = SynthOptions {
        traces: args.traces,
        seed: args.seed,
        shape: match args.shape {
            CorpusShape::Aligned => Shape::Aligned,
            CorpusShape::Tails => Shape::Tails,
        },
        block_size: args.block_size.unwrap_or(defaults.block_size),
        turns: args.turns.unwrap_or(defaults.turns),
        max_context: args.max_context.unwrap_or(defaults.max_context),
        helpers: args.helpers.unwrap_or(defaults.helpers),
        fan_out: args.fan_out.unwrap_or(defaults.fan_out),
        pace: args.pace.unwrap_or(defaults.pace),
    };
    options.validate().map_err(|error| Failure::Usage(error.to_string()))?;
    let folder = &args.out;
    let failed = |error| Failure::Failed(format!("cannot write to `{}`: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    if folder.read_dir().map_err(failed)?.next().is_some() {
        return Err(Failure::Usage(format!("-o `{}`: the folder is not empty; name a new one", folder.display())));
    }
    write_synthetic(&options, folder)?;
    out::print(&format!("{} traces in {}", options.traces, folder.display()))?;
    Ok(0)
}

/// Writes the traces that `options` ask for into `folder`.
pub(crate) fn write_synthetic(options: &SynthOptions, folder: &Path) -> Result<(), Failure> {
    for trace in generate(options).map_err(|error| Failure::Usage(error.to_string()))? {
        let trace = trace.map_err(Failure::of)?;
        let path = folder.join(format!("{}.json", trace.id));
        std::fs::write(&path, trace.json)
            .map_err(|error| Failure::Failed(format!("cannot write `{}`: {error}", path.display())))?;
    }
    Ok(())
}
