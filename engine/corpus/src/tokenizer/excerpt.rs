//! A tokenizer without the entries that cannot occur in a set of texts. It gives these texts the same ids, is read in a
//! fraction of the time, and takes a fraction of the memory.
//!
//! Byte-pair encoding only ever makes parts of the text it is given. An entry that is no part of a text never comes
//! about in it, nor does a merge that makes one; leaving both out leaves the order of the others as it is. So this holds
//! for any text in the set, as long as nothing changes the text before the model sees it.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::canonical::{Merge, Shell, Text};
use super::cover::Cover;

/// Characters that stand for bytes in byte-level vocabularies, and all letters and signs of the first alphabets.
const ATOMS_BELOW: char = '\u{250}';
const METASPACE: &str = "▁";

/// A part of a tokenizer.json.
pub(super) struct Excerpt {
    /// In the form that the library reads; ids are places in `originals`.
    pub(super) text: String,
    /// The file's own ids.
    pub(super) originals: Vec<u32>,
    /// Entries of the file's vocabulary.
    pub(super) entries: u32,
    /// Texts of the added tokens.
    pub(super) added: Vec<String>,
    /// The file's largest id plus 1.
    pub(super) id_space: u32,
}

impl Excerpt {
    /// What `shell` needs for the texts of `cover`. None: the file is out of the ordinary, or its tokenizer may make
    /// something else of a text than its parts.
    pub(super) fn of(shell: &Shell<'_>, cover: &Cover) -> Option<Self> {
        if !only_joins(shell) {
            return None;
        }
        let added = shell.added();
        let always: HashSet<&str> =
            added.texts.iter().map(String::as_str).chain(shell.model["unk_token"].as_str()).collect();
        let admits = |entry: &str| cover.admits(entry) || always.contains(entry) || is_needed_anyway(entry);
        let mut vocabulary =
            Vocabulary { admits, kept: String::from("{"), originals: Vec::new(), largest: 0, entries: 0 };
        let mut merges =
            Merges { admits: |both: &str| cover.admits(both), kept: String::from("["), both: String::new() };
        let all_merges = shell.merges?;
        let (vocabulary_read, merges_read) =
            rayon::join(|| read(shell.vocab, &mut vocabulary), || read(all_merges, &mut merges));
        vocabulary_read.and(merges_read)?;
        let Vocabulary { mut kept, originals, largest, entries, .. } = vocabulary;
        kept.push('}');
        merges.kept.push(']');
        let text = shell.around(&kept, Some(&merges.kept))?;
        let id_space = added.id_space((entries > 0).then_some(largest));
        Some(Self { text, originals, entries, added: added.texts, id_space })
    }
}

/// Whether the tokenizer joins characters of the text as it stands, spaces aside.
fn only_joins(shell: &Shell<'_>) -> bool {
    let model = &shell.model;
    let is_absent = |name: &str| matches!(model[name].as_str(), None | Some(""));
    model["type"] == "BPE"
        && is_absent("continuing_subword_prefix")
        && is_absent("end_of_word_suffix")
        && model["dropout"].as_f64().unwrap_or(0.0) == 0.0
        && leaves_text(shell.part("normalizer"))
        && leaves_text(shell.part("pre_tokenizer"))
}

/// Whether a normalizer or pre-tokenizer leaves ASCII text as it is, but for signs for spaces and a space in front.
fn leaves_text(step: &Value) -> bool {
    let all_of = |name: &str| step[name].as_array().is_some_and(|steps| steps.iter().all(leaves_text));
    match step["type"].as_str() {
        None => step.is_null(),
        Some("Sequence") => {
            let lists = ["normalizers", "pretokenizers"];
            lists.iter().any(|list| !step[list].is_null())
                && lists.iter().all(|list| step[list].is_null() || all_of(list))
        }
        Some(
            "NFC" | "NFD" | "NFKC" | "NFKD" | "ByteLevel" | "Split" | "Digits" | "Punctuation" | "Whitespace"
            | "WhitespaceSplit" | "CharDelimiterSplit" | "BertPreTokenizer" | "UnicodeScripts",
        ) => true,
        Some("MetaspaceNormalizer") => step["replacement"] == METASPACE,
        Some("Prepend") => step["prepend"] == METASPACE,
        Some("Replace") => step["pattern"]["String"] == " " && step["content"] == METASPACE,
        Some(_) => false,
    }
}

/// Entries that are looked up without being a part of a text: what characters are made of, bytes, and those that tell
/// what may stand behind a newline.
fn is_needed_anyway(entry: &str) -> bool {
    let mut signs = entry.chars();
    let is_atom = |sign: char| sign < ATOMS_BELOW || entry == METASPACE;
    if signs.next().is_some_and(is_atom) && signs.next().is_none() {
        return true;
    }
    let is_byte = entry.len() == 6 && entry.starts_with("<0x") && entry.ends_with('>');
    let goes_on = |newline: &str| {
        entry.split(newline).skip(1).any(|rest| rest.bytes().next().is_some_and(|byte| byte.is_ascii_graphic()))
    };
    is_byte || goes_on("\n") || goes_on("Ċ")
}

/// Reads JSON into `seed`, to its end.
fn read<'de>(json: &'de str, seed: impl DeserializeSeed<'de>) -> Option<()> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    seed.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()
}

fn push_json(text: &str, into: &mut String) -> Result<(), serde_json::Error> {
    into.push_str(&serde_json::to_string(text)?);
    Ok(())
}

/// Keeps the entries that `admits` lets through, numbered anew.
struct Vocabulary<F> {
    admits: F,
    kept: String,
    originals: Vec<u32>,
    largest: u64,
    entries: u32,
}

impl<'de, F: Fn(&str) -> bool> DeserializeSeed<'de> for &mut Vocabulary<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: Fn(&str) -> bool> Visitor<'de> for &mut Vocabulary<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vocabulary")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((Text(entry), id)) = map.next_entry::<Text<'_>, u32>()? {
            self.entries += 1;
            self.largest = self.largest.max(u64::from(id));
            if !(self.admits)(&entry) {
                continue;
            }
            if !self.originals.is_empty() {
                self.kept.push(',');
            }
            push_json(&entry, &mut self.kept).map_err(A::Error::custom)?;
            self.kept.push(':');
            self.kept.push_str(&self.originals.len().to_string());
            self.originals.push(id);
        }
        Ok(())
    }
}

/// Keeps the merges whose product `admits` lets through: then both parts are in the vocabulary, too.
struct Merges<F> {
    admits: F,
    kept: String,
    both: String,
}

impl<F: Fn(&str) -> bool> Merges<F> {
    fn push(&mut self, left: &str, right: &str) -> Result<(), serde_json::Error> {
        self.both.clear();
        self.both.push_str(left);
        self.both.push_str(right);
        if !(self.admits)(&self.both) {
            return Ok(());
        }
        self.kept.push_str(if self.kept.len() > 1 { ",[" } else { "[" });
        push_json(left, &mut self.kept)?;
        self.kept.push(',');
        push_json(right, &mut self.kept)?;
        self.kept.push(']');
        Ok(())
    }
}

impl<'de, F: Fn(&str) -> bool> DeserializeSeed<'de> for &mut Merges<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: Fn(&str) -> bool> Visitor<'de> for &mut Merges<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of merges")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(merge) = seq.next_element::<Merge<'_>>()? {
            if let Merge::Of(left, right) = merge {
                self.push(&left, &right).map_err(A::Error::custom)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    fn file() -> Value {
        json!({
            "version": "1.0",
            "added_tokens": [{"id": 9, "content": "<|end|>", "special": true}],
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
            "model": {
                "type": "BPE", "unk_token": "<unk>",
                "vocab": {
                    "a": 0, "Ġ": 1, "é": 2, "<0x41>": 3, "lab": 11, "Ġlabel": 12, "stable": 13, "Ċx": 14, "<unk>": 15, "中": 16,
                    "<|end|>": 20, "long": 21,
                },
                "merges": ["#version: 0.2", "l ab", "Ġ label", "st able", "a é"],
            },
        })
    }

    fn excerpt(file: &Value) -> Option<Excerpt> {
        let mut cover = Cover::new();
        cover.add("a label");
        let text = file.to_string();
        Excerpt::of(&Shell::of(text.as_bytes())?, &cover)
    }

    #[test]
    fn what_can_occur_is_kept_with_what_is_always_needed() {
        let Excerpt { text, originals, entries, added, id_space } = excerpt(&file()).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        let kept = json!({
            "a": 0, "Ġ": 1, "é": 2, "<0x41>": 3, "lab": 4, "Ġlabel": 5, "Ċx": 6, "<unk>": 7, "<|end|>": 8,
        });
        assert_eq!(read["model"]["vocab"], kept);
        assert_eq!(read["model"]["merges"], json!([["l", "ab"], ["Ġ", "label"]]));
        assert_eq!(originals, [0, 1, 2, 3, 11, 12, 14, 15, 20]);
        assert_eq!((entries, id_space), (12, 22));
        assert_eq!(added, ["<|end|>"]);
    }

    #[test]
    fn tokenizers_that_change_the_text_are_read_whole() {
        let with = |path: &str, value: Value| {
            let mut file = file();
            *file.pointer_mut(path).unwrap() = value;
            excerpt(&file).is_some()
        };
        let space = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        for (path, value, stays) in [
            ("/normalizer", json!(null), true),
            ("/normalizer", json!({"type": "Lowercase"}), false),
            ("/normalizer", space.clone(), true),
            (
                "/normalizer",
                json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, space]}),
                true,
            ),
            ("/normalizer", json!({"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}), false),
            ("/normalizer", json!({"type": "Replace", "pattern": {"String": "e"}, "content": "a"}), false),
            ("/pre_tokenizer", json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}), true),
            ("/pre_tokenizer", json!({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}), false),
            ("/model/type", json!("WordPiece"), false),
            ("/model/vocab", json!({"a": "b"}), false),
            ("/model/merges", json!(["a b c"]), false),
            ("/model/merges", json!([["a", "b", "c"]]), false),
            ("/model/merges", json!([["a", "b"], ["b", "ab"]]), true),
        ] {
            assert_eq!(with(path, value.clone()), stays, "{path} {value}");
        }
        let mut suffixed = file();
        suffixed["model"]["end_of_word_suffix"] = json!("</w>");
        assert!(excerpt(&suffixed).is_none());
    }
}
