//! Figures of the text for one tokenizer: time to build the pool, cost of a prompt.
//!
//! `cargo run --release -p agentx-corpus --example text_figures -- builtin [CHARACTERS SHOWN]`

use std::env;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use agentx_corpus::text::{CorpusText, Foreseen, TextKind, TextPool};
use agentx_corpus::tokenizer::Tokenizer;
use agentx_corpus::{ContextEdit, Conversation, ConversationKind, Role, Run, Segment, SessionTemplate, Turn};
use agentx_types::{
    CacheCounts, ConversationIndex, PromptAt, PromptSource, SourceKind, SourceRef, TemplateIndex, TokenCounter,
    TurnIndex,
};
use smallvec::SmallVec;

/// Times each measurement is taken.
const ROUNDS: u32 = 50;

#[expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark: figures on stdout, a clock of its own"
)]
fn main() -> Result<(), Box<dyn Error>> {
    let source = env::args().nth(1).unwrap_or_else(|| "builtin".to_owned());
    let shown: usize = env::args().nth(2).map_or(Ok(3_000), |characters| characters.parse())?;
    let start = Instant::now();
    let texts = Foreseen::new(1);
    let tokenizer = Tokenizer::load_for(&source, None, || texts.cover())?;
    println!("tokenizer loaded in {:?}", start.elapsed());
    let start = Instant::now();
    let pool = TextPool::build_foreseen(&tokenizer, texts, TextKind::Coding);
    println!("pool built in {:?}: {}", start.elapsed(), pool.report());
    println!("part of the tokenizer was enough: {}", tokenizer.is_in_part());
    println!("{:#?}", pool.report());

    let text = CorpusText::new(vec![one_prompt(1_563)], pool);
    let at = PromptAt { template: TemplateIndex(0), conversation: ConversationIndex(0), turn: TurnIndex(0) };
    let mut buffer = Vec::with_capacity(64 * 1024);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        drop(text.open(at, None));
    }
    let opened = start.elapsed() / ROUNDS;
    let start = Instant::now();
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let mut reader = text.open(at, None);
        while reader.read(&mut buffer, 8 * 1024) {
            bytes += buffer.len();
            buffer.clear();
        }
        bytes += buffer.len();
        buffer.clear();
    }
    let whole = start.elapsed() / ROUNDS;
    println!(
        "prompt of 100,032 tokens: opened in {opened:?}, opened and read in {whole:?}, {} bytes",
        bytes / ROUNDS as usize
    );
    let mut all = Vec::new();
    text.write_messages(at, None, &mut all)?;
    let json: serde_json::Value = serde_json::from_slice(&all)?;
    let content = json[0]["content"].as_str().unwrap_or_default();
    println!("tokens found: {}", tokenizer.count(content));
    println!("{}", Looks::of(content, tokenizer.count(content)));
    println!("{}", &content[..shown.min(content.len())]);
    Ok(())
}

/// What tells code from noise at a glance.
struct Looks {
    bytes_per_token: f64,
    tokens_per_line: f64,
    /// Shares of all characters, percent.
    punctuation: f64,
    digits: f64,
    /// Share of lines, percent.
    indented: f64,
}

impl Looks {
    fn of(text: &str, tokens: u64) -> Self {
        let share = |is: fn(char) -> bool| 100.0 * text.chars().filter(|c| is(*c)).count() as f64 / text.len() as f64;
        let lines = text.lines().count() as f64;
        let indented = text.lines().filter(|line| line.starts_with(' ')).count() as f64;
        Self {
            bytes_per_token: text.len() as f64 / tokens as f64,
            tokens_per_line: tokens as f64 / lines,
            punctuation: share(|c| c.is_ascii_punctuation()),
            digits: share(|c| c.is_ascii_digit()),
            indented: 100.0 * indented / lines,
        }
    }
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "bytes/token {:.2}, tokens/line {:.1}, punctuation {:.1} %, digits {:.1} %, indented lines {:.0} %",
            self.bytes_per_token, self.tokens_per_line, self.punctuation, self.digits, self.indented
        )
    }
}

fn one_prompt(blocks: u32) -> SessionTemplate {
    let segment = Segment {
        role: Role::User,
        runs: [Run { first: 0, len: blocks }].into_iter().collect(),
        blocks,
        tail: 0,
        turn: TurnIndex(0),
    };
    let turn = Turn {
        source: SourceRef { kind: SourceKind::WekaMain, outer: 0, inner: None },
        start_ms: None,
        delay_ms: None,
        think_delay_ms: None,
        api_ms: None,
        input_tokens: u64::from(blocks) * 64,
        max_tokens: 1,
        model: 0,
        recorded_model: Arc::from("m"),
        input_kind: None,
        edit: ContextEdit { keep: 0, push: [segment].into_iter().collect() },
        reset: false,
        emitted: 1,
        cache: CacheCounts::default(),
        spawns: SmallVec::new(),
        joins: SmallVec::new(),
        after: Vec::new(),
    };
    let root = Conversation {
        id: Arc::from("t"),
        kind: ConversationKind::Main,
        parent: None,
        scope: Arc::from("t"),
        branch: None,
        turns: vec![turn],
    };
    SessionTemplate {
        id: Arc::from("t"),
        name: Arc::from("t"),
        sha256: String::new(),
        block_size: 64,
        peak_context: 0,
        conversations: vec![root],
        branches: Vec::new(),
    }
}
