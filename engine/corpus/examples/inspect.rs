//! What a corpus would replay: `inspect PATH [--format topology|summary] [--models N] [--max-context-length N]
//! [--num-dataset-entries N] [--no-split] [--tool-shaped] [--synthesis-max-osl N] [--synthesis-max-isl N] [--trace ID]`.

use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use agentx_corpus::inspect::{Summary, error_line, topology_line};
use agentx_corpus::{CorpusOptions, inspect_each};

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = CorpusOptions { models: 4, ..CorpusOptions::default() };
    let (mut paths, mut only, mut topology) = (Vec::new(), None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--format" => topology = value()? == "topology",
            "--models" => options.models = value()?.parse()?,
            "--max-context-length" => options.max_context_length = Some(value()?.parse()?),
            "--num-dataset-entries" => options.num_dataset_entries = Some(value()?.parse()?),
            "--synthesis-max-osl" => options.max_osl = Some(value()?.parse()?),
            "--synthesis-max-isl" => options.max_isl = Some(value()?.parse()?),
            "--no-split" => options.weka.split_flattened_agents = false,
            "--tool-shaped" => options.weka.tool_shaped_messages = true,
            "--trace" => only = Some(value()?),
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut written = Ok(());
    let mut summary = Summary::default();
    let report = inspect_each(&paths, &options, only.as_deref(), |name, template| {
        if topology {
            let line = template.map_or_else(|error| error_line(name, error), topology_line);
            written = std::mem::replace(&mut written, Ok(())).and_then(|()| writeln!(out, "{line}"));
        } else {
            summary.add(name, template);
        }
    })?;
    written?;
    if !topology {
        write!(out, "{}", summary.finish(&report))?;
    }
    out.flush()?;
    report.require_eligible(&options).map_err(Into::into)
}
