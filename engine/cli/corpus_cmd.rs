//! `agentx corpus`.

use std::path::Path;

use agentx_corpus::synth::{Shape, SynthOptions, generate};

use crate::CommandResult;
use crate::args::{CorpusShape, SynthArgs};
use crate::failure::Failure;
use crate::out;

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
