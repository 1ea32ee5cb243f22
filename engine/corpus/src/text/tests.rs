//! The promises of the text, on hand-made templates and the built-in tokenizer.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use agentx_types::{Marker, MarkerTarget, PromptAt, PromptSource, TokenCounter};
use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::build::{Exactness, TextKind, TextPool};
use super::prompt::CorpusText;
use super::testing::{at, builtin, pool, segment, template};
use super::verify::verify_tokens;
use crate::template::{Role, Segment, SessionTemplate};
use crate::tokenizer::Tokenizer;
use crate::{CorpusOptions, inspect_each};

const TARGETS: [MarkerTarget; 5] = [
    MarkerTarget::None,
    MarkerTarget::FirstTurnPrefix,
    MarkerTarget::FirstTurnSuffix,
    MarkerTarget::SystemPrefix,
    MarkerTarget::SystemSuffix,
];

fn text_of(templates: Vec<SessionTemplate>) -> CorpusText {
    CorpusText::new(templates, pool())
}

fn bytes(text: &CorpusText, at: PromptAt, marker: Option<&Marker>) -> Vec<u8> {
    let mut out = Vec::new();
    text.write_messages(at, marker, &mut out).unwrap();
    out
}

fn messages(text: &CorpusText, at: PromptAt, marker: Option<&Marker>) -> Vec<Value> {
    serde_json::from_slice(&bytes(text, at, marker)).unwrap()
}

fn contents(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

fn marker(target: MarkerTarget) -> Marker {
    Marker { text: Arc::from("[rid:c3d891b19121]"), target }
}

/// The text of one block of trace `trace`.
fn block(pool: &TextPool, trace: &str, size: u32, id: u64) -> String {
    let one = template(trace, size, vec![(0, vec![segment(Role::User, &[(id, 1)], 0, 0)])]);
    contents(&messages(&CorpusText::new(vec![one], pool.clone()), at(0, 0), None)).concat()
}

/// Whatever the sizes, the prompts of a conversation have the tokens that are recorded, for every marker target.
fn assert_exact(text: &CorpusText, turn: u32) {
    for marker in TARGETS.map(marker).iter().map(Some).chain([None]) {
        let counted: u64 =
            contents(&messages(text, at(0, turn), marker)).iter().map(|c| text.pool().tokenizer().count(c)).sum();
        assert_eq!(text.input_tokens(at(0, turn), marker), counted, "{marker:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_prompt_has_the_recorded_tokens(
        size in 1_u32..200,
        shift in 2_u32..62,
        id in any::<u64>(),
        shape in prop::collection::vec((0_u8..3, 0_u32..6, 0_u32..40), 1..5),
        tail in 0_u32..600,
    ) {
        let first = id >> shift;
        let mut next = first;
        let mut list: Vec<Segment> = Vec::new();
        for (role, blocks, gap) in shape {
            let role = [Role::System, Role::Assistant, Role::User][role as usize];
            let runs = if blocks > 0 { vec![(next, blocks), (next + u64::from(blocks + gap), 1)] } else { vec![] };
            next += u64::from(blocks + gap + 1);
            list.push(segment(role, &runs, 0, 0));
        }
        if let Some(last) = list.last_mut() {
            last.tail = tail;
        }
        let text = text_of(vec![template("t", size, vec![(0, list)])]);
        assert_exact(&text, 0);
        let report = verify_tokens(&text, None);
        prop_assert!(report.is_exact(), "{report} {:?}", report.offenders);
    }

    #[test]
    fn a_reader_gives_the_same_bytes_at_any_granularity(step in 1_usize..5_000, tail in 0_u32..300) {
        let list = vec![segment(Role::System, &[(0, 3)], 0, 0), segment(Role::User, &[(3, 9)], tail, 0)];
        let text = text_of(vec![template("t", 64, vec![(0, list)])]);
        let marker = marker(MarkerTarget::FirstTurnPrefix);
        let whole = bytes(&text, at(0, 0), Some(&marker));
        let mut reader = text.open(at(0, 0), Some(&marker));
        prop_assert_eq!(reader.len(), whole.len() as u64);
        let (mut read, mut piece) = (Vec::new(), Vec::new());
        loop {
            let more = reader.read(&mut piece, step);
            prop_assert!(!more || piece.len() >= step);
            prop_assert!(piece.len() < step + 64 * 20, "overshoot of {}", piece.len() - step);
            read.append(&mut piece);
            if !more {
                break;
            }
        }
        prop_assert_eq!(read, whole);
        prop_assert!(!reader.read(&mut piece, 1) && piece.is_empty(), "nothing comes behind the end");
    }
}

#[test]
fn every_tail_and_block_size_is_exact() {
    let tokenizer = builtin();
    for tokens in 1..400 {
        let only_tail = template("t", 64, vec![(0, vec![segment(Role::User, &[], tokens, 0)])]);
        let behind = template("u", 64, vec![(0, vec![segment(Role::User, &[(7, 1)], tokens, 0)])]);
        let text = text_of(vec![only_tail, behind]);
        let count = |index| tokenizer.count(&contents(&messages(&text, at(index, 0), None)).concat());
        assert_eq!((count(0), count(1)), (u64::from(tokens), u64::from(tokens) + 64), "tail of {tokens}");
    }
    for size in 1..130 {
        for id in [0, 1, 1 << 41, 1 << 62] {
            assert_eq!(tokenizer.count(&block(&pool(), "t", size, id)), u64::from(size), "block of {size}, id {id}");
        }
    }
}

#[test]
fn ids_are_told_apart_and_part_early() {
    let tokenizer = builtin();
    let ids = (0..3_000).chain((0..300).map(|n| (1 << 40) - 150 + n)).chain((0..300).map(|n| (1 << 62) + n));
    let mut texts = HashSet::new();
    let mut starts = HashSet::new();
    for id in ids {
        let text = block(&pool(), "t", 64, id);
        starts.insert(tokenizer.encode(&text)[..16].to_vec());
        texts.insert(text);
    }
    assert_eq!(texts.len(), 3_600);
    assert_eq!(starts.len(), 3_600, "no two blocks share a server's block of 16 tokens");
}

#[test]
fn text_belongs_to_seed_trace_and_id_alone() {
    let here = pool();
    let again = TextPool::build(&builtin(), 1);
    let other_seed = TextPool::build(&builtin(), 2);
    for id in [0, 5, 1 << 50] {
        let text = block(&here, "t", 64, id);
        assert_eq!(text, block(&again, "t", 64, id));
        assert_ne!(text, block(&other_seed, "t", 64, id));
        assert_ne!(text, block(&here, "u", 64, id));
    }
    let single = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let serial = single.install(|| TextPool::build(&builtin(), 1));
    assert_eq!(serial.report(), here.report());
    assert_eq!(block(&serial, "t", 64, 9), block(&here, "t", 64, 9));
}

#[test]
fn selection_order_and_neighbours_do_not_matter() {
    let make = |id: &str| template(id, 64, vec![(0, vec![segment(Role::User, &[(0, 20)], 11, 0)])]);
    let (a, b) = (text_of(vec![make("a"), make("b")]), text_of(vec![make("b")]));
    let of_b = bytes(&b, at(0, 0), None);
    assert_eq!(bytes(&a, at(1, 0), None), of_b);
    assert_ne!(bytes(&a, at(0, 0), None), of_b);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let text = a.clone();
            std::thread::spawn(move || bytes(&text, at(1, 0), None))
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap() == of_b));
    let joined = contents(&messages(&b, at(0, 0), None)).concat();
    let blocks: String = (0..20).map(|id| block(&pool(), "b", 64, id)).collect();
    assert!(joined.starts_with(&blocks), "a block is the same text whatever stands beside it");
}

#[test]
fn tails_differ_by_turn_and_conversation() {
    let tails: HashSet<String> = (0..50)
        .map(|turn| template("t", 64, vec![(0, vec![segment(Role::User, &[], 20, turn)])]))
        .chain((0..50).map(|n| template(&format!("t{n}"), 64, vec![(0, vec![segment(Role::User, &[], 20, 0)])])))
        .map(|one| contents(&messages(&text_of(vec![one]), at(0, 0), None)).concat())
        .collect();
    assert_eq!(tails.len(), 100);
}

#[test]
fn an_undisturbed_prefix_is_sent_again_byte_for_byte() {
    let text = text_of(vec![template(
        "t",
        64,
        vec![
            (0, vec![segment(Role::System, &[(0, 4)], 0, 0), segment(Role::User, &[(4, 2)], 17, 0)]),
            (
                1,
                vec![
                    segment(Role::User, &[(4, 2)], 0, 1),
                    segment(Role::Assistant, &[(6, 2)], 0, 1),
                    segment(Role::User, &[(8, 1)], 0, 1),
                ],
            ),
            (4, vec![segment(Role::Assistant, &[(9, 2)], 0, 2), segment(Role::User, &[(11, 30)], 5, 2)]),
        ],
    )]);
    let turns: Vec<Vec<Value>> = (0..3).map(|turn| messages(&text, at(0, turn), None)).collect();
    assert_eq!(turns[0][0], turns[1][0]);
    assert!(contents(&turns[0])[1].starts_with(&contents(&turns[1])[1]), "a cut tail leaves the blocks as they were");
    assert_eq!(turns[1][..4], turns[2][..4]);
    let (second, third) = (bytes(&text, at(0, 1), None), bytes(&text, at(0, 2), None));
    assert!(third.starts_with(&second[..second.len() - 1]));
    let roles: Vec<&str> = turns[2].iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant", "user"]);
    for turn in 0..3 {
        assert_exact(&text, turn);
    }
    let report = verify_tokens(&text, None);
    assert_eq!((report.requests, report.exact, report.inexact), (3, 3, 0));
    assert_eq!((report.changed_blocks, report.broken_prefixes, report.repeated_blocks), (0, 0, 0));
    assert_eq!(verify_tokens(&text, Some(2)).requests, 2);
}

#[test]
fn a_wrong_count_is_found_and_named() {
    let mut wrong = template("t", 64, vec![(0, vec![segment(Role::User, &[(0, 4)], 0, 0)])]);
    wrong.conversations[0].turns[0].input_tokens = 250;
    let report = verify_tokens(&text_of(vec![wrong]), None);
    assert!(!report.is_exact());
    assert_eq!(report.to_string(), "requests 1 exact 0 inexact 1 max_diff 6 mean_diff 6.000");
    let offender = &report.offenders[0];
    assert_eq!((&*offender.conversation, offender.recorded, offender.found), ("t", 250, 256));
}

#[test]
fn the_marker_stands_where_its_target_says() {
    let system = segment(Role::System, &[(0, 1)], 0, 0);
    let user = segment(Role::User, &[(1, 1)], 0, 0);
    let assistant = segment(Role::Assistant, &[(2, 1)], 0, 0);
    let text = text_of(vec![
        template("t", 64, vec![(0, vec![system.clone(), user.clone(), assistant.clone(), user.clone()])]),
        template("u", 64, vec![(0, vec![assistant, user])]),
        template("v", 64, vec![(0, vec![system])]),
    ]);
    for (index, target, place) in [
        (0, MarkerTarget::None, None),
        (0, MarkerTarget::FirstTurnPrefix, Some((1, true))),
        (0, MarkerTarget::FirstTurnSuffix, Some((1, false))),
        (0, MarkerTarget::SystemPrefix, Some((0, true))),
        (0, MarkerTarget::SystemSuffix, Some((0, false))),
        (1, MarkerTarget::SystemPrefix, Some((1, true))),
        (1, MarkerTarget::SystemSuffix, Some((1, false))),
        (2, MarkerTarget::FirstTurnPrefix, None),
        (2, MarkerTarget::SystemSuffix, Some((0, false))),
    ] {
        let plain = contents(&messages(&text, at(index, 0), None));
        let marked = contents(&messages(&text, at(index, 0), Some(&marker(target))));
        for (message, (plain, marked)) in plain.iter().zip(&marked).enumerate() {
            let expected = match place {
                Some((at, true)) if at == message => format!("[rid:c3d891b19121]\n\n{plain}"),
                Some((at, false)) if at == message => format!("{plain}\n\n[rid:c3d891b19121]"),
                _ => plain.clone(),
            };
            assert_eq!(*marked, expected, "{target:?}, message {message}");
        }
        assert_exact(&text, 0);
    }
}

#[test]
fn tool_messages_pair_with_the_call_before_them() {
    let text = text_of(vec![template(
        "t",
        64,
        vec![
            (0, vec![segment(Role::User, &[(0, 1)], 0, 0)]),
            (1, vec![segment(Role::Assistant, &[(1, 1)], 0, 1), segment(Role::Tool, &[(2, 1)], 0, 1)]),
            (3, vec![segment(Role::Assistant, &[(3, 1)], 0, 2), segment(Role::User, &[(4, 1)], 0, 2)]),
        ],
    )]);
    let sent = messages(&text, at(0, 2), None);
    let call =
        json!([{"id": "call_turn_1", "type": "function", "function": {"name": "recorded_tool", "arguments": "{}"}}]);
    assert_eq!(sent[1]["tool_calls"], call);
    assert_eq!((&sent[2]["role"], &sent[2]["tool_call_id"]), (&json!("tool"), &json!("call_turn_1")));
    assert!([0, 3, 4].iter().all(|&plain: &usize| sent[plain].as_object().unwrap().len() == 2));
}

#[test]
fn an_empty_prompt_is_an_empty_array() {
    let text = text_of(vec![template("t", 64, vec![(0, vec![])])]);
    assert_eq!(bytes(&text, at(0, 0), Some(&marker(MarkerTarget::FirstTurnPrefix))), b"[]");
    assert_eq!(text.input_tokens(at(0, 0), None), 0);
}

#[test]
fn text_is_pinned() {
    let list = vec![
        segment(Role::System, &[(0, 40)], 0, 0),
        segment(Role::User, &[(40, 200), (1 << 61, 5)], 333, 0),
        segment(Role::Assistant, &[], 3, 0),
    ];
    let text = text_of(vec![template("pinned", 64, vec![(0, list.clone())]), template("pinned", 3, vec![(0, list)])]);
    let digest = |index| format!("{:x}", Sha256::digest(bytes(&text, at(index, 0), None)));
    // Changes only with templates, words, tokenizer or drawing rules: never with the platform.
    insta::assert_snapshot!(format!("blocks of 64: {}\nblocks of 3: {}", digest(0), digest(1)));
    insta::assert_snapshot!(block(&pool(), "pinned", 64, 0));
}

/// The built-in tokenizer with its JSON changed.
fn altered(change: impl FnOnce(&mut Value)) -> Tokenizer {
    static JSON: OnceLock<Value> = OnceLock::new();
    let original = JSON.get_or_init(|| {
        serde_json::from_reader(GzDecoder::new(&include_bytes!("../../assets/builtin-tokenizer.json.gz")[..])).unwrap()
    });
    let mut json = original.clone();
    change(&mut json);
    Tokenizer::from_json(json.to_string().as_bytes(), "altered", Path::new("altered")).unwrap()
}

fn add_tokens(json: &mut Value, texts: impl Iterator<Item = String>) {
    let added: Vec<Value> = texts
        .enumerate()
        .map(|(index, text)| {
            json!({"id": 8192 + index, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": false})
        })
        .collect();
    json["added_tokens"] = Value::from(added);
}

fn sample_template() -> SessionTemplate {
    let list = vec![segment(Role::System, &[(0, 9)], 0, 0), segment(Role::User, &[(9, 30)], 77, 0)];
    template("t", 64, vec![(0, list)])
}

#[test]
fn first_fallback_pieces_that_do_not_add_up_are_dropped() {
    // A token across the newline before `+`, and one inside a piece.
    let texts = ["\n+".to_owned(), "return None".to_owned()];
    let tokenizer = altered(|json| add_tokens(json, texts.into_iter()));
    let pool = TextPool::build(&tokenizer, 1);
    let report = pool.report();
    assert_eq!(report.exactness, Exactness::Lines);
    assert!(report.dropped > 500, "{report:?}");
    let text = CorpusText::new(vec![sample_template()], pool);
    let verified = verify_tokens(&text, None);
    assert!(verified.is_exact(), "{verified}");
    let sent = contents(&messages(&text, at(0, 0), None)).concat();
    assert!(!sent.contains("\n+") && !sent.contains("return None"));
    assert_exact(&text, 0);
}

#[test]
fn second_fallback_words_only() {
    // Every visible character merges with a newline before it.
    let tokenizer = altered(|json| add_tokens(json, ('!'..='~').map(|c| format!("\n{c}"))));
    let pool = TextPool::build(&tokenizer, 1);
    assert_eq!(pool.report().exactness, Exactness::WordsOnly);
    insta::assert_snapshot!(pool.report());
    let text = CorpusText::new(vec![sample_template()], pool);
    let verified = verify_tokens(&text, None);
    assert!(verified.is_exact(), "{verified} {:?}", verified.offenders);
    assert_eq!(verified.repeated_blocks, 0);
    assert!(!contents(&messages(&text, at(0, 0), None)).concat().contains('\n'));
    assert_exact(&text, 0);
}

#[test]
fn third_fallback_counts_are_approximate_and_say_so() {
    // Bytes only: no word is one token.
    let tokenizer = altered(|json| json["model"]["merges"] = json!([]));
    let pool = TextPool::build(&tokenizer, 1);
    assert_eq!(pool.report().exactness, Exactness::Approximate);
    insta::assert_snapshot!(pool.report());
    let text = CorpusText::new(vec![sample_template()], pool);
    let verified = verify_tokens(&text, None);
    assert_eq!(verified.inexact, 1);
    assert!(verified.max_diff < 2_573 / 5, "{verified}");
    assert_exact(&text, 0);
}

#[test]
fn prose_and_random_words_are_exact_too() {
    for kind in [TextKind::Sonnet, TextKind::Random] {
        let pool = TextPool::build_kind(&builtin(), 1, kind);
        assert_eq!((pool.report().fallback.as_ref(), pool.report().kind), (None, kind));
        let text = CorpusText::new(vec![sample_template()], pool);
        let verified = verify_tokens(&text, None);
        assert!(verified.is_exact(), "{kind:?} {verified} {:?}", verified.offenders);
        let sent = contents(&messages(&text, at(0, 0), None)).concat();
        assert_eq!(sent.contains('\n'), kind == TextKind::Sonnet, "{sent}");
        assert!(!sent.contains("return ") && !sent.contains("};"), "{sent}");
    }
}

#[test]
fn tiny_blocks_warn_when_ids_outnumber_their_words() {
    let list = |first| vec![(0, vec![segment(Role::User, &[(first, 3)], 0, 0)])];
    let text = text_of(vec![
        template("few", 1, list(10)),
        template("many", 1, list(1 << 20)),
        template("t", 64, list(1 << 62)),
    ]);
    let warnings = text.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("trace many: blocks of 1 tokens"), "{}", warnings[0]);
}

/// Every request of the recorded traces beside the workspace, if they are there. Another tokenizer than the built-in
/// one is tried when `AGENTX_TEST_TOKENIZER` names it.
#[test]
fn recorded_traces_are_exact() {
    let shared = std::env::var_os("AGENTX_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let traces = shared.join("traces");
    if !traces.is_dir() {
        writeln!(std::io::stderr(), "skipped: no traces in {}", traces.display()).unwrap();
        return;
    }
    let mut templates = Vec::new();
    inspect_each(&[traces], &CorpusOptions::default(), None, |_, template| templates.extend(template.ok().cloned()))
        .unwrap();
    let pool = match std::env::var("AGENTX_TEST_TOKENIZER") {
        Ok(source) => TextPool::build(&Tokenizer::load(&source, None).unwrap(), 1),
        Err(_) => pool(),
    };
    let report = verify_tokens(&CorpusText::new(templates, pool), Some(300));
    assert_eq!(report.requests, 300);
    assert!(report.is_exact() && report.repeated_blocks == 0, "{report} {:?}", report.offenders);
}
