//! `agentx inspect`: what would be replayed, proven and shown.

use std::io::Write;
use std::sync::Arc;

use agentx_corpus::inspect::{Summary, error_line, topology_line};
use agentx_corpus::text::{CorpusText, TextPool, verify_tokens};
use agentx_corpus::tokenizer::Tokenizer;
use agentx_corpus::{CorpusOptions, SessionTemplate, inspect_each};
use agentx_types::{ConversationIndex, PromptAt, TemplateIndex, TurnIndex};

use crate::CommandResult;
use crate::args::{InspectArgs, InspectFormat, TracesArgs};
use crate::corpus_source::CorpusSource;
use crate::failure::Failure;
use crate::{out, settings};

/// The loader's options that TRACES arguments stand for.
pub(crate) fn corpus_options(args: &TracesArgs) -> CorpusOptions {
    let mut options = CorpusOptions {
        models: args.models as usize,
        max_context_length: args.max_context_length,
        num_dataset_entries: args.num_dataset_entries.map(|n| n as usize),
        max_isl: args.synthesis_max_isl,
        max_osl: args.synthesis_max_osl,
        ..CorpusOptions::default()
    };
    options.weka.split_flattened_agents = !args.no_split;
    options.weka.tool_shaped_messages = args.tool_shaped;
    options
}

/// Every trace that can be replayed; those that cannot are named on stderr and left out.
pub(crate) fn usable_templates(args: &TracesArgs, only: Option<&str>) -> Result<Vec<Arc<SessionTemplate>>, Failure> {
    let source = CorpusSource::of_paths(&args.traces)?;
    let mut templates = Vec::new();
    inspect_each(&source.paths, &corpus_options(args), only, |name, template| match template {
        Ok(template) => templates.push(Arc::new(template.clone())),
        Err(error) => out::err(&format!("left out: {} ({error})", name.name)),
    })
    .map_err(Failure::of)?;
    if let (Some(only), true) = (only, templates.is_empty()) {
        return Err(Failure::Failed(format!("no replayable trace `{only}` in {}", source.name)));
    }
    Ok(templates)
}

/// The command.
pub(crate) fn inspect(args: &InspectArgs) -> CommandResult {
    if args.verify_tokens {
        return verify(args);
    }
    if args.bodies {
        return bodies(args);
    }
    let source = CorpusSource::of_paths(&args.traces.traces)?;
    let options = corpus_options(&args.traces);
    let mut answer = out::answer();
    let mut written = Ok(());
    let mut refused = false;
    let mut shown = 0;
    let mut summary = Summary::default();
    let report = inspect_each(&source.paths, &options, args.trace.as_deref(), |name, template| {
        shown += 1;
        refused |= template.is_err();
        if args.format == InspectFormat::Summary {
            summary.add(name, template);
        } else if written.is_ok() {
            written = writeln!(answer, "{}", template.map_or_else(|error| error_line(name, error), topology_line));
        }
    })
    .map_err(Failure::of)?;
    written?;
    if let (Some(trace), 0) = (&args.trace, shown) {
        return Err(Failure::Failed(format!("no trace `{trace}` in {}", source.name)));
    }
    if args.format == InspectFormat::Summary {
        write!(answer, "{}", summary.finish(&report))?;
    }
    answer.flush()?;
    if args.trace.is_none() && !refused {
        report.require_eligible(&options).map_err(Failure::of)?;
    }
    Ok(u8::from(refused))
}

fn text(args: &InspectArgs, templates: Vec<Arc<SessionTemplate>>) -> Result<CorpusText, Failure> {
    let source = args.tokenizer.as_deref().unwrap_or("builtin");
    let tokenizer = Tokenizer::load(source, None).map_err(Failure::of)?;
    let pool = TextPool::build(&tokenizer, args.seed);
    let text = CorpusText::new(templates, pool);
    for warning in settings::text_warnings(&text) {
        out::err(&warning);
    }
    Ok(text)
}

fn verify(args: &InspectArgs) -> CommandResult {
    let text = text(args, usable_templates(&args.traces, args.trace.as_deref())?)?;
    let report = verify_tokens(&text, args.sample);
    for offender in &report.offenders {
        out::err(&format!(
            "inexact: {} turn {}: recorded {}, found {}",
            offender.conversation, offender.turn, offender.recorded, offender.found
        ));
    }
    for (count, what) in [
        (report.changed_blocks, "messages with a block whose text differs from its text elsewhere"),
        (report.broken_prefixes, "conversations whose undisturbed prefix was not sent again byte for byte"),
        (
            report.repeated_blocks,
            "ids that share their text with another id of the trace (blocks too small to tell them apart)",
        ),
    ] {
        if count > 0 {
            out::err(&format!("{count} {what}"));
        }
    }
    out::print(&format!(
        "requests={} exact={} inexact={} max_diff={} mean_diff={:.6}",
        report.requests, report.exact, report.inexact, report.max_diff, report.mean_diff
    ))?;
    Ok(u8::from(report.inexact > 0 || report.changed_blocks > 0 || report.broken_prefixes > 0))
}

/// One JSON body a line, in order of conversations and turns.
fn bodies(args: &InspectArgs) -> CommandResult {
    let templates = usable_templates(&args.traces, args.trace.as_deref())?;
    let text = Arc::new(text(args, templates)?);
    let mut answer = out::answer();
    for (index, template) in text.templates().iter().enumerate() {
        for (position, conversation) in template.conversations.iter().enumerate() {
            for turn in 0..conversation.turns.len() {
                if args.turn.is_some_and(|wanted| wanted as usize != turn) {
                    continue;
                }
                let at = PromptAt {
                    template: TemplateIndex::from(index),
                    conversation: ConversationIndex::from(position),
                    turn: TurnIndex::from(turn),
                };
                let body = settings::sample_body(text.clone(), template, at);
                answer.write_all(&body)?;
                answer.write_all(b"\n")?;
            }
        }
    }
    answer.flush()?;
    Ok(0)
}
