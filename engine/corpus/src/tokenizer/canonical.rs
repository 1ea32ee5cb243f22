//! From a tokenizer.json of any version to the form that the library reads, without a tree of the whole file: vocabulary
//! and merges are most of it, and are passed on as text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A file in the form of version 2.0, and what else is asked of it.
pub(super) struct Canonical {
    pub(super) text: String,
    /// Texts of the added tokens.
    pub(super) added: Vec<String>,
    /// The largest id plus 1.
    pub(super) id_space: u32,
}

/// Converts `data`; the error says what is wrong with it.
pub(super) fn canonical(data: &[u8]) -> Result<Canonical, String> {
    // Whatever is out of the ordinary goes the long way, which has a message for it.
    if let Some(found) = spliced(data) {
        return Ok(found);
    }
    let mut json: Value = serde_json::from_slice(data).map_err(|error| format!("not JSON ({error})"))?;
    let added = AddedTokens::of(&json["added_tokens"]);
    let model = match &json["model"]["vocab"] {
        Value::Object(entries) => entries.values().filter_map(Value::as_u64).max(),
        Value::Array(entries) => (entries.len() as u64).checked_sub(1),
        _ => None,
    };
    tokenizers::canonicalize_value(&mut json).map_err(|error| error.to_string())?;
    let text = serde_json::to_string(&json).map_err(|error| error.to_string())?;
    Ok(Canonical { text, id_space: added.id_space(model), added: added.texts })
}

/// A file of the usual shape: what is small in the new form, around the text of what is large.
pub(super) struct Shell<'a> {
    /// All but the model.
    root: Value,
    /// The model without vocabulary and merges.
    pub(super) model: Value,
    /// JSON as it stands in the file.
    pub(super) vocab: &'a str,
    pub(super) merges: Option<&'a str>,
}

impl<'a> Shell<'a> {
    /// None: the file is out of the ordinary.
    pub(super) fn of(data: &'a [u8]) -> Option<Self> {
        let Parts { fields, model } = serde_json::from_slice(data).ok()?;
        let model = model?;
        let (vocab, merges) = (model.get("vocab")?.get(), model.get("merges").map(|merges| merges.get()));
        let merges = merges.filter(|merges| *merges != "null");

        let mut root = Map::new();
        for (name, value) in &fields {
            root.insert(name.to_string(), serde_json::from_str(value.get()).ok()?);
        }
        let mut small = Map::new();
        for (name, value) in &model {
            let value = match &**name {
                "vocab" if vocab.starts_with('[') => Value::Array(Vec::new()),
                "vocab" => Value::Object(Map::new()),
                "merges" if merges.is_some() => Value::Array(Vec::new()),
                _ => serde_json::from_str(value.get()).ok()?,
            };
            small.insert(name.to_string(), value);
        }
        root.insert("model".into(), Value::Object(small));
        let mut root = Value::Object(root);
        tokenizers::canonicalize_value(&mut root).ok()?;

        let mut model = root.as_object_mut()?.remove("model")?;
        model.as_object_mut()?.remove("vocab");
        if merges.is_some() {
            model.as_object_mut()?.remove("merges");
        }
        Some(Self { root, model, vocab, merges })
    }

    pub(super) fn added(&self) -> AddedTokens {
        AddedTokens::of(&self.root["added_tokens"])
    }

    /// A part of the file besides the model.
    pub(super) fn part(&self, name: &str) -> &Value {
        &self.root[name]
    }

    /// The whole file, with this vocabulary and these merges.
    pub(super) fn around(&self, vocab: &str, merges: Option<&str>) -> Option<String> {
        let mut text = String::with_capacity(vocab.len() + merges.map_or(0, str::len) + 65_536);
        text.push_str(serde_json::to_string(&self.root).ok()?.strip_suffix('}')?);
        text.push_str(",\"model\":");
        text.push_str(serde_json::to_string(&self.model).ok()?.strip_suffix('}')?);
        text.push_str(",\"vocab\":");
        text.push_str(vocab);
        if let Some(merges) = merges {
            text.push_str(",\"merges\":");
            text.push_str(merges);
        }
        text.push_str("}}");
        Some(text)
    }
}

/// The members of an object, as they stand in the file.
type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// A file in one pass: the model is most of it, and is not gone through twice.
struct Parts<'a> {
    /// All but the model.
    fields: Members<'a>,
    model: Option<Members<'a>>,
}

impl<'de> Deserialize<'de> for Parts<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct File;

        impl<'de> Visitor<'de> for File {
            type Value = Parts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a tokenizer.json")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut parts = Parts { fields: BTreeMap::new(), model: None };
                while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                    if name == "model" {
                        parts.model = Some(map.next_value()?);
                    } else {
                        parts.fields.insert(name, map.next_value()?);
                    }
                }
                Ok(parts)
            }
        }

        deserializer.deserialize_map(File)
    }
}

/// The same for a file of the usual shape, without a tree of what is large.
fn spliced(data: &[u8]) -> Option<Canonical> {
    let shell = Shell::of(data)?;
    let ids: Ids = serde_json::from_str(shell.vocab).ok()?;
    let merges = match shell.merges {
        Some(merges) if !is_list_of_lists(merges) => {
            Some(serde_json::to_string(&serde_json::from_str::<Pairs<'_>>(merges).ok()?.0).ok()?.into())
        }
        merges => merges.map(Cow::Borrowed),
    };
    let text = shell.around(shell.vocab, merges.as_deref())?;
    let added = shell.added();
    Some(Canonical { text, id_space: added.id_space(ids.0), added: added.texts })
}

fn is_list_of_lists(json: &str) -> bool {
    let inner = json.strip_prefix('[').unwrap_or(json).trim_start();
    inner.starts_with('[') || inner.starts_with(']')
}

pub(super) struct AddedTokens {
    pub(super) texts: Vec<String>,
    largest: Option<u64>,
}

impl AddedTokens {
    fn of(list: &Value) -> Self {
        let tokens = list.as_array().into_iter().flatten();
        Self {
            texts: tokens.clone().filter_map(|token| Some(token["content"].as_str()?.to_owned())).collect(),
            largest: tokens.filter_map(|token| token["id"].as_u64()).max(),
        }
    }

    /// The largest id plus 1, with those of the model.
    pub(super) fn id_space(&self, model: Option<u64>) -> u32 {
        self.largest.max(model).map_or(0, |id| id + 1) as u32
    }
}

/// The largest id of a vocabulary: of `{token: id}` the largest value, of a list the last index.
struct Ids(Option<u64>);

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Largest;

        impl<'de> Visitor<'de> for Largest {
            type Value = Option<u64>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut largest = None;
                while let Some((_, id)) = map.next_entry::<IgnoredAny, u64>()? {
                    largest = largest.max(Some(id));
                }
                Ok(largest)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut entries = 0_u64;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    entries += 1;
                }
                Ok(entries.checked_sub(1))
            }
        }

        deserializer.deserialize_any(Largest).map(Self)
    }
}

/// Merges as pairs. The line that names a version is none; anything else than two parts is an error.
struct Pairs<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Vec<(Cow<'de, str>, Cow<'de, str>)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of merges")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(merge) = seq.next_element::<Merge<'de>>()? {
                    if let Merge::Of(left, right) = merge {
                        pairs.push((left, right));
                    }
                }
                Ok(pairs)
            }
        }

        deserializer.deserialize_seq(List).map(Self)
    }
}

/// A text, lent where JSON allows it.
#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// A merge, spelled `"a b"` or `["a", "b"]`.
pub(super) enum Merge<'a> {
    Of(Cow<'a, str>, Cow<'a, str>),
    /// The line that names a version.
    Version,
}

impl<'a> Merge<'a> {
    fn spelled(text: Cow<'a, str>) -> Option<Self> {
        if text.starts_with("#version") {
            return Some(Self::Version);
        }
        parts(text).map(|(left, right)| Self::Of(left, right))
    }
}

impl<'de> Deserialize<'de> for Merge<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Merge<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge of two parts")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Merge::spelled(Cow::Borrowed(text)).ok_or_else(|| E::custom("not two parts"))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Merge::spelled(Cow::Owned(text.to_owned())).ok_or_else(|| E::custom("not two parts"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut next = || seq.next_element::<Text<'de>>();
                match (next()?, next()?, next()?) {
                    (Some(Text(left)), Some(Text(right)), None) => Ok(Merge::Of(left, right)),
                    _ => Err(A::Error::custom("not two parts")),
                }
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// The two sides of a merge spelled `"a b"`.
fn parts(merge: Cow<'_, str>) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    // Byte by byte: merges are short, and there are hundreds of thousands.
    let mut spaces = merge.bytes().enumerate().filter(|&(_, byte)| byte == b' ').map(|(at, _)| at);
    let (Some(space), None) = (spaces.next(), spaces.next()) else { return None };
    Some(match merge {
        Cow::Borrowed(text) => (text[..space].into(), text[space + 1..].into()),
        Cow::Owned(text) => (text[..space].to_owned().into(), text[space + 1..].to_owned().into()),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    fn the_long_way(data: &str) -> Value {
        let mut json: Value = serde_json::from_str(data).unwrap();
        tokenizers::canonicalize_value(&mut json).unwrap();
        json
    }

    #[test]
    fn both_ways_give_the_same_file() {
        let files = [
            json!({
                "version": "1.0", "normalizer": {"type": "NFC"},
                "added_tokens": [{"id": 7, "content": "<|end|>", "special": true}],
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
                "model": {
                    "type": "BPE", "vocab": {"a": 0, "b\"\n": 1, "ab\"\n": 2},
                    "merges": ["#version: 0.2", "a b\"\n", "\u{120} t"],
                },
            }),
            json!({"model": {"vocab": {"a": 4}, "merges": [["a", " b"], ["c d", "e"]], "unk_token": null}}),
            json!({"model": {"vocab": {"a": 4}, "merges": [], "continuing_subword_prefix": null}}),
            json!({"model": {"vocab": [["a", -1.5], ["b", -2.0]], "unk_id": 0}}),
            json!({"model": {"type": "WordPiece", "vocab": {"a": 0}, "continuing_subword_prefix": "##", "merges": null}}),
        ];
        let spaces = [8, 5, 5, 2, 1];
        for (file, ids) in files.iter().zip(spaces) {
            let pretty = serde_json::to_string_pretty(file).unwrap();
            let found = spliced(pretty.as_bytes()).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&found.text).unwrap(), the_long_way(&pretty), "{pretty}");
            assert_eq!(found.id_space, ids, "{pretty}");
            assert_eq!(canonical(pretty.as_bytes()).unwrap().added, found.added);
        }
    }

    #[test]
    fn what_is_out_of_the_ordinary_is_left_to_the_long_way() {
        for file in [
            json!({"model": {"vocab": {"a": 0}, "merges": ["a b c"]}}),
            json!({"model": {"vocab": {"a": 0}, "merges": ["ab"]}}),
            json!({"model": {"vocab": {"a": 0}, "merges": {"a": "b"}}}),
            json!({"model": {"vocab": "vocab.json"}}),
            json!({"model": {}}),
            json!([1, 2]),
        ] {
            assert!(spliced(file.to_string().as_bytes()).is_none(), "{file}");
        }
        assert!(
            canonical(br#"{"model": {"vocab": {"a": 0}, "merges": ["a b c"]}}"#).is_err_and(|e| e.contains("a b c"))
        );
    }
}
