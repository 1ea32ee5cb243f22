//! Types of keys: what is legal, how it is said, and its canonical form. Nothing is coerced.

use serde_json::{Map, Value};

use super::spec::KeySpec;
use crate::problem::Problem;
use crate::seconds;
use crate::source::{Node, Tree};

/// The type of a key.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number in a range, ends included.
    Int {
        /// Least.
        min: u64,
        /// Greatest.
        max: u64,
    },
    /// A number in a range; `open` ends are not part of it.
    Number {
        /// Least.
        min: f64,
        /// Greatest.
        max: f64,
        /// Whether the ends are excluded.
        open: bool,
    },
    /// A duration: seconds as a number, or `500ms`, `90s`, `30m`, `2h`.
    Seconds {
        /// Least.
        min: f64,
        /// Whether `min` itself is excluded.
        above: bool,
        /// Greatest.
        max: f64,
        /// Whether `inf` is legal.
        inf: bool,
    },
    /// One of these words.
    Enum(&'static [&'static str]),
    /// A non-empty string.
    Text,
    /// A path, relative to the working directory.
    Path,
    /// A path of a request: begins with `/`.
    UrlPath,
    /// A string that no output shows.
    Secret,
    /// A list of at least `min` server addresses.
    Urls {
        /// Least number.
        min: usize,
    },
    /// A string or a non-empty list of strings.
    Names,
    /// A list of words from this set.
    EnumList(&'static [&'static str]),
    /// A list of strings.
    Texts,
    /// A map of strings.
    TextMap,
    /// A map of anything.
    OpenMap,
    /// A map of numbers.
    NumberMap,
    /// A map with these keys.
    Options(&'static [KeySpec]),
    /// A boolean or a path.
    BoolOrPath,
    /// `off`, `auto` or milliseconds.
    Latency,
    /// Anything: the key exists to be refused or ignored.
    Anything,
}

/// Why a value is not legal.
pub(crate) struct Refusal {
    pub(crate) node_spot: crate::source::Spot,
    pub(crate) subkey: String,
    pub(crate) what: String,
    pub(crate) expected: Option<String>,
    pub(crate) help: Option<String>,
}

impl Kind {
    /// The unit of the kind, where it has one.
    pub fn unit(&self) -> &'static str {
        match self {
            Kind::Seconds { .. } => "s",
            Kind::Latency => "ms",
            _ => "",
        }
    }

    /// Whether the value is a map whose entries merge one by one.
    pub fn is_map(&self) -> bool {
        matches!(self, Kind::TextMap | Kind::OpenMap | Kind::NumberMap | Kind::Options(_))
    }

    /// The legal values, for people.
    pub fn legal(&self) -> String {
        match self {
            Kind::Bool => "`true` or `false`".into(),
            Kind::Int { min, max } if min == max => format!("the integer {min}"),
            Kind::Int { min, max } if *max >= i64::MAX as u64 => format!("an integer >= {min}"),
            Kind::Int { min, max } => format!("an integer from {min} to {max}"),
            Kind::Number { min, max, open: true } => format!("a number between {min} and {max}, ends excluded"),
            Kind::Number { min, max, .. } if max.is_infinite() => format!("a number >= {min}"),
            Kind::Number { min, max, .. } => format!("a number from {min} to {max}"),
            Kind::Seconds { min, above, max, inf } => {
                let sign = if *above { ">" } else { ">=" };
                let upper = if max.is_finite() { format!(" and <= {max}") } else { String::new() };
                let inf = if *inf { ", \"inf\"" } else { "" };
                format!("seconds {sign} {min}{upper}: a number, or \"500ms\", \"90s\", \"30m\", \"2h\"{inf}")
            }
            Kind::Enum(words) => one_of(words),
            Kind::Text | Kind::Secret => "a non-empty string".into(),
            Kind::Path => "a path".into(),
            Kind::UrlPath => "a string that begins with `/`".into(),
            Kind::Urls { min: 0 } => "a list of server addresses (`host:port` or a URL)".into(),
            Kind::Urls { .. } => "a list of at least one server address (`host:port` or a URL)".into(),
            Kind::Names => "a non-empty string, or a list of them".into(),
            Kind::EnumList(words) => format!("a list with any of {}", quoted(words)),
            Kind::Texts => "a list of strings".into(),
            Kind::TextMap => "a map of strings".into(),
            Kind::OpenMap => "a map".into(),
            Kind::NumberMap => "a map of numbers".into(),
            Kind::Options(options) => {
                format!("a map with any of {}", quoted(&options.iter().map(|option| option.key).collect::<Vec<_>>()))
            }
            Kind::BoolOrPath => "`true`, `false` or a path".into(),
            Kind::Latency => "`off`, `auto` or a number of milliseconds".into(),
            Kind::Anything => "anything".into(),
        }
    }

    /// The canonical form of a value as written: durations and fractions as floating point, lists for single names,
    /// addresses with a scheme. All that is wrong with it goes to `refuse`.
    pub(crate) fn canonical(&self, node: &Node, refuse: &mut dyn FnMut(Refusal)) -> Value {
        let mut wrong = |what: String| {
            refuse(Refusal {
                node_spot: node.spot,
                subkey: String::new(),
                what,
                expected: Some(self.legal()),
                help: None,
            });
            Value::Null
        };
        match (self, &node.value) {
            (Kind::Bool | Kind::BoolOrPath, Tree::Bool(flag)) => Value::Bool(*flag),
            (Kind::Bool, Tree::Text(text)) if is_word_for_bool(text) => {
                wrong(format!("\"{text}\" is a string here, not a boolean"))
            }
            (Kind::Int { min, max }, Tree::Int(number)) => match u64::try_from(*number) {
                Ok(number) if (*min..=*max).contains(&number) => number.into(),
                _ => wrong(format!("{number} is out of range")),
            },
            (Kind::Number { min, max, open }, Tree::Int(_) | Tree::Float(_)) => {
                let number = node_number(node).unwrap_or(f64::NAN);
                let inside = if *open { number > *min && number < *max } else { number >= *min && number <= *max };
                if inside && number.is_finite() { number.into() } else { wrong(format!("{number} is out of range")) }
            }
            (Kind::Seconds { min, above, max, inf }, Tree::Int(_) | Tree::Float(_) | Tree::Text(_)) => {
                match seconds::of_node(node) {
                    None => wrong(format!("{} is no duration", node.shown())),
                    Some(number) if number.is_infinite() && number > 0.0 => {
                        if *inf {
                            "inf".into()
                        } else {
                            wrong("infinity is not possible here".into())
                        }
                    }
                    Some(number) if number < *min || (*above && number <= *min) || number > *max => {
                        wrong(format!("{} is out of range", node.shown()))
                    }
                    Some(number) => number.into(),
                }
            }
            (Kind::Enum(words), Tree::Text(text)) => {
                if words.contains(&text.as_str()) {
                    text.as_str().into()
                } else {
                    let help = nearest(words, text).map(|word| format!("did you mean `{word}`?"));
                    refuse(Refusal {
                        node_spot: node.spot,
                        subkey: String::new(),
                        what: format!("unknown value \"{text}\""),
                        expected: Some(self.legal()),
                        help,
                    });
                    Value::Null
                }
            }
            (Kind::Text | Kind::Path | Kind::Secret, Tree::Text(text)) if text.trim().is_empty() => {
                wrong("the string is empty".into())
            }
            (Kind::Text | Kind::Path | Kind::Secret, Tree::Text(text)) => text.as_str().into(),
            (Kind::UrlPath, Tree::Text(text)) if text.starts_with('/') => text.as_str().into(),
            (Kind::UrlPath, Tree::Text(text)) => wrong(format!("\"{text}\" does not begin with `/`")),
            (Kind::Urls { min }, Tree::List(items)) if items.len() >= *min => {
                list(items, self, refuse, |text| url(text).ok_or_else(|| format!("\"{text}\" is no server address")))
            }
            (Kind::Urls { .. } | Kind::EnumList(_), Tree::Text(text)) => {
                wrong(format!("got the string \"{text}\", not a list; write [{text}]"))
            }
            (Kind::Names, Tree::Text(text)) if !text.trim().is_empty() => Value::Array(vec![text.as_str().into()]),
            (Kind::Names, Tree::List(items)) if !items.is_empty() => list(items, self, refuse, |text| {
                if text.trim().is_empty() { Err("a name is empty".into()) } else { Ok(text.to_owned()) }
            }),
            (Kind::Names | Kind::Urls { .. }, Tree::List(_)) => wrong("the list is empty".into()),
            (Kind::EnumList(words), Tree::List(items)) => list(items, self, refuse, |text| {
                if words.contains(&text) { Ok(text.to_owned()) } else { Err(format!("unknown value \"{text}\"")) }
            }),
            (Kind::Texts, Tree::List(items)) => list(items, self, refuse, |text| Ok(text.to_owned())),
            (Kind::TextMap | Kind::NumberMap | Kind::OpenMap | Kind::Options(_), Tree::Map(entries)) => {
                let mut map = Map::new();
                for entry in entries {
                    let value = self.entry(&entry.key, entry.spot, &entry.node, refuse);
                    map.insert(entry.key.clone(), value);
                }
                Value::Object(map)
            }
            (Kind::BoolOrPath, Tree::Text(text)) if !text.trim().is_empty() => text.as_str().into(),
            (Kind::Latency, Tree::Text(text)) if text == "off" || text == "auto" => text.as_str().into(),
            (Kind::Latency, Tree::Int(_) | Tree::Float(_)) => match node_number(node) {
                Some(number) if number >= 0.0 && number.is_finite() => number.into(),
                _ => wrong(format!("{} is out of range", node.shown())),
            },
            (Kind::Anything, _) => node.json(),
            (Kind::Secret, _) => wrong(format!("got {}, not a string", node.kind())),
            (_, Tree::Map(_)) => wrong("got a map".into()),
            _ => wrong(format!("got {} ({})", node.kind(), node.shown())),
        }
    }

    fn entry(&self, key: &str, spot: crate::source::Spot, node: &Node, refuse: &mut dyn FnMut(Refusal)) -> Value {
        if node.value == Tree::Null {
            return Value::Null;
        }
        let below = |mut refusal: Refusal| {
            refusal.subkey =
                if refusal.subkey.is_empty() { key.to_owned() } else { format!("{key}.{}", refusal.subkey) };
            refusal
        };
        match self {
            Kind::TextMap => Kind::Text.canonical(node, &mut |refusal| refuse(below(refusal))),
            Kind::NumberMap => {
                let number = Kind::Number { min: f64::MIN, max: f64::MAX, open: false };
                number.canonical(node, &mut |refusal| refuse(below(refusal)))
            }
            Kind::Options(options) => {
                let Some(option) = options.iter().find(|option| option.key == key) else {
                    let names: Vec<&str> = options.iter().map(|option| option.key).collect();
                    let help = nearest(&names, key).map(|name| format!("did you mean `{name}`?"));
                    refuse(below(Refusal {
                        node_spot: spot,
                        subkey: String::new(),
                        what: "unknown key".into(),
                        expected: Some(one_of(&names)),
                        help,
                    }));
                    return Value::Null;
                };
                option.kind.canonical(node, &mut |refusal| refuse(below(refusal)))
            }
            _ => node.json(),
        }
    }

    /// Shortens a problem's words for a key whose value must not be shown.
    pub(crate) fn hush(&self, problem: Problem) -> Problem {
        if matches!(self, Kind::Secret) {
            Problem {
                place: problem.place.map(|mut place| {
                    place.source.text = "".into();
                    place
                }),
                ..problem
            }
        } else {
            problem
        }
    }
}

fn list(
    items: &[Node],
    kind: &Kind,
    refuse: &mut dyn FnMut(Refusal),
    check: impl Fn(&str) -> Result<String, String>,
) -> Value {
    let mut out = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let checked = match &item.value {
            Tree::Text(text) => check(text),
            _ => Err(format!("got {} ({}), not a string", item.kind(), item.shown())),
        };
        match checked {
            Ok(text) => out.push(Value::String(text)),
            Err(what) => refuse(Refusal {
                node_spot: item.spot,
                subkey: format!("[{index}]"),
                what,
                expected: Some(kind.legal()),
                help: None,
            }),
        }
    }
    Value::Array(out)
}

/// `host:port` → `http://host:port`; a URL stays, without its trailing slash.
fn url(text: &str) -> Option<String> {
    let text = text.trim();
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let host = rest.split(['/', '?']).next().unwrap_or("");
    let legal = matches!(scheme, "http" | "https")
        && !host.is_empty()
        && !host.starts_with(':')
        && !rest.chars().any(|c| c.is_whitespace() || c.is_control());
    let port_ok = match host.rsplit_once(':') {
        Some((_, port)) if !host.ends_with(']') => port.parse::<u16>().is_ok(),
        _ => true,
    };
    (legal && port_ok).then(|| format!("{scheme}://{}", rest.trim_end_matches('/')))
}

fn node_number(node: &Node) -> Option<f64> {
    match node.value {
        Tree::Int(number) => Some(number as f64),
        Tree::Float(number) => Some(number),
        _ => None,
    }
}

fn is_word_for_bool(text: &str) -> bool {
    ["yes", "no", "on", "off", "true", "false", "1", "0"].contains(&text.trim().to_lowercase().as_str())
}

/// `` `a`, `b` or `c` ``.
pub(crate) fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => format!("`{only}`"),
        [rest @ .., last] => format!("{} or `{last}`", quoted(rest)),
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The word most like `text`, if any is like it at all.
pub(crate) fn nearest<'a>(words: &[&'a str], text: &str) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_'], "");
    words
        .iter()
        .map(|word| (strsim::jaro_winkler(&plain(word), &plain(text)), *word))
        .filter(|(likeness, _)| *likeness >= 0.75)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, word)| word)
}

/// A whole number >= 1.
pub(super) const COUNT: Kind = Kind::Int { min: 1, max: i64::MAX as u64 };
/// A whole number >= 0.
pub(super) const WHOLE: Kind = Kind::Int { min: 0, max: i64::MAX as u64 };
/// A fraction from 0 to 1.
pub(super) const RATIO: Kind = Kind::Number { min: 0.0, max: 1.0, open: false };
/// A number >= 0.
pub(super) const AMOUNT: Kind = Kind::Number { min: 0.0, max: f64::INFINITY, open: false };
/// A duration > 0.
pub(super) const SPAN: Kind = Kind::Seconds { min: 0.0, above: true, max: f64::INFINITY, inf: false };
/// A duration >= 0.
pub(super) const DELAY: Kind = Kind::Seconds { min: 0.0, above: false, max: f64::INFINITY, inf: false };
/// A duration >= 0 or `inf`.
pub(super) const GRACE: Kind = Kind::Seconds { min: 0.0, above: false, max: f64::INFINITY, inf: true };
