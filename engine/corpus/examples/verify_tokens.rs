//! Counts the prompts of a corpus again: `verify_tokens TOKENIZER [--sample N] [--kind coding|sonnet|random] TRACES…`.

use std::error::Error;
use std::path::PathBuf;

use agentx_corpus::text::{CorpusText, TextKind, TextPool, verify_tokens};
use agentx_corpus::tokenizer::{ChatTemplate, Tokenizer};
use agentx_corpus::{CorpusOptions, inspect_each};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line example")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let source = arguments.next().ok_or("a tokenizer is needed: `builtin` or a path")?;
    let (mut paths, mut sample, mut kind) = (Vec::new(), None, TextKind::Coding);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--sample" => sample = Some(arguments.next().ok_or("--sample needs a number")?.parse()?),
            "--kind" => {
                kind = match arguments.next().as_deref() {
                    Some("coding") => TextKind::Coding,
                    Some("sonnet") => TextKind::Sonnet,
                    Some("random") => TextKind::Random,
                    _ => return Err("--kind is coding, sonnet or random".into()),
                };
            }
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    let mut templates = Vec::new();
    inspect_each(&paths, &CorpusOptions::default(), None, |name, template| match template {
        Ok(template) => templates.push(template.clone()),
        Err(error) => eprintln!("{}: {error}", name.name),
    })?;
    let text = CorpusText::new(templates, TextPool::build_kind(&Tokenizer::load(&source, None)?, 1, kind));
    eprintln!("{}", text.pool().report());
    for warning in text.warnings() {
        eprintln!("{warning}");
    }
    if let Ok(template) = ChatTemplate::load(&source, None) {
        eprintln!("trimmed by the chat template: {:?}", text.trimmed_by(&template)?);
    }
    let report = verify_tokens(&text, sample);
    println!("{report}");
    eprintln!(
        "{} messages of {} tokens encoded; blocks changed {}, blocks repeated {}, prefixes broken {}",
        report.messages, report.tokens, report.changed_blocks, report.repeated_blocks, report.broken_prefixes
    );
    for offender in &report.offenders {
        eprintln!("{offender:?}");
    }
    if report.is_exact() { Ok(()) } else { Err("some requests are not exact".into()) }
}
