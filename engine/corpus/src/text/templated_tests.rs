//! Counts with a chat template against the rendered prompt, encoded as a whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentx_types::{
    ConversationIndex, Marker, MarkerTarget, PromptAt, PromptSource, TemplateIndex, TokenCounter, TurnIndex,
};
use serde_json::{Map, Value};

use super::build::TextPool;
use super::prompt::CorpusText;
use super::templated::ChatTemplateCost;
use super::testing::{at, pool, segment, template};
use crate::template::{Role, SessionTemplate};
use crate::tokenizer::{ChatMessage, ChatTemplate, ChatTemplateError, Tokenizer};
use crate::{CorpusOptions, load};

const PLAIN: &str = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}\
                     {% if add_generation_prompt %}<|assistant|>{% endif %}";
const TRIMS: &str = "{% for m in messages %}[{{ m.role }}] {{ m.content | trim }} [end]\n{% endfor %}";
const READS_IT_ALL: &str = "{% for m in messages %}{{ m.role }}: {{ m.content | upper }}\n{% endfor %}";
const REFUSES_SYSTEM: &str = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}";

fn chat(text: &str) -> ChatTemplate {
    ChatTemplate::new(text, Map::new(), "own".into()).unwrap()
}

/// Two turns of several roles: whole blocks, tails, words, and a message without text.
fn talk() -> SessionTemplate {
    let first = vec![
        segment(Role::System, &[(0, 3)], 0, 0),
        segment(Role::User, &[(3, 9)], 17, 0),
        segment(Role::Assistant, &[(12, 1)], 0, 0),
        segment(Role::User, &[], 41, 0),
    ];
    let next = vec![segment(Role::Assistant, &[(20, 2)], 0, 1), segment(Role::Tool, &[(22, 30)], 5, 1)];
    template("t", 64, vec![(0, first), (3, next)])
}

fn text_of(pool: TextPool) -> CorpusText {
    CorpusText::new(vec![talk()], pool)
}

fn marker(target: MarkerTarget) -> Marker {
    Marker { text: Arc::from("[rid:0c9d891b1f21]"), target }
}

/// The bytes that are sent, rendered with the template, encoded as a whole.
fn encoded(text: &CorpusText, chat: &ChatTemplate, at: PromptAt, marker: Option<&Marker>) -> u64 {
    let mut sent = Vec::new();
    text.write_messages(at, marker, &mut sent).unwrap();
    let sent: Vec<Value> = serde_json::from_slice(&sent).unwrap();
    let message = |m: &'_ Value| (m["role"].as_str().unwrap().to_owned(), m["content"].as_str().unwrap().to_owned());
    let messages: Vec<(String, String)> = sent.iter().map(message).collect();
    let messages: Vec<ChatMessage<'_>> = messages.iter().map(|(role, content)| ChatMessage { role, content }).collect();
    text.pool().tokenizer().count(&chat.render(&messages).unwrap())
}

#[test]
fn counts_are_those_of_the_rendered_prompt_however_little_of_it_is_read() {
    let targets = [MarkerTarget::None, MarkerTarget::FirstTurnPrefix, MarkerTarget::SystemSuffix];
    for (jinja, expected) in [
        (PLAIN, [ChatTemplateCost::Roles, ChatTemplateCost::Ends]),
        (TRIMS, [ChatTemplateCost::Ends, ChatTemplateCost::Ends]),
        (READS_IT_ALL, [ChatTemplateCost::Whole, ChatTemplateCost::Whole]),
    ] {
        for target in targets {
            let text = text_of(pool()).with_chat_template(chat(jinja), target).unwrap();
            let cost = text.chat_template_cost().unwrap();
            assert!(expected.contains(&cost), "{jinja} {target:?}: {cost:?}");
            let marker = (target != MarkerTarget::None).then(|| marker(target));
            // The second time it is remembered.
            for turn in [0, 1, 0, 1] {
                let counted = text.rendered_tokens(at(0, turn), marker.as_ref());
                assert_eq!(
                    counted,
                    Some(encoded(&text, &chat(jinja), at(0, turn), marker.as_ref())),
                    "{jinja} {target:?}"
                );
                assert_ne!(counted, Some(text.input_tokens(at(0, turn), marker.as_ref())), "{jinja}");
            }
        }
    }
}

#[test]
fn without_a_template_the_bare_texts_count() {
    let text = text_of(pool());
    assert!(!text.counts_rendered());
    assert_eq!(text.rendered_tokens(at(0, 1), None), Some(text.input_tokens(at(0, 1), None)));
}

#[test]
fn a_template_that_refuses_the_corpus_is_an_error_at_the_start() {
    let error = text_of(pool()).with_chat_template(chat(REFUSES_SYSTEM), MarkerTarget::None).unwrap_err();
    assert!(matches!(error, ChatTemplateError::Refused { .. }), "{error}");
}

/// With `AGENTX_TEST_TOKENIZER` (a model's folder with its chat template): prompts of the tests' traces.
#[test]
#[expect(clippy::print_stdout, reason = "tells what was skipped or counted")]
fn a_models_own_template_counts_as_the_rendered_prompt() {
    let Ok(source) = std::env::var("AGENTX_TEST_TOKENIZER") else {
        println!("skipped: AGENTX_TEST_TOKENIZER names no tokenizer with a chat template");
        return;
    };
    let tokenizer = Tokenizer::load(&source, None).unwrap();
    let chat = ChatTemplate::load(&source, None).unwrap();
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces");
    let traces = std::env::var("AGENTX_TEST_TRACES").map_or(default, Into::into);
    let mut files: Vec<PathBuf> = fs::read_dir(traces).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    // Some of the tests' traces are wrong on purpose.
    let loaded = files.into_iter().filter_map(|file| load(&[file], &CorpusOptions::default()).ok());
    let templates: Vec<SessionTemplate> = loaded.flat_map(|corpus| corpus.templates).collect();
    let text = CorpusText::new(templates, TextPool::build(&tokenizer, 1));
    let target = MarkerTarget::FirstTurnPrefix;
    let text = text.with_chat_template(chat.clone(), target).unwrap();
    let marker = marker(target);
    let (mut seen, mut tokens, mut added) = (0, 0, 0);
    for (index, template) in text.templates().clone().iter().enumerate() {
        for (place, conversation) in template.conversations.iter().enumerate() {
            let step = conversation.turns.len().div_ceil(3).max(1);
            for turn in (0..conversation.turns.len()).step_by(step) {
                let at = PromptAt {
                    template: TemplateIndex::from(index),
                    conversation: ConversationIndex::from(place),
                    turn: TurnIndex::from(turn),
                };
                for marker in [None, Some(&marker)] {
                    let whole = encoded(&text, &chat, at, marker);
                    assert_eq!(text.rendered_tokens(at, marker), Some(whole), "{} {turn}", conversation.id);
                    seen += 1;
                    tokens += whole;
                    added += whole - text.input_tokens(at, marker);
                }
            }
        }
    }
    let cost = text.chat_template_cost();
    println!("{seen} prompts, {tokens} tokens, of which the template's own {added}; {cost:?}");
}
