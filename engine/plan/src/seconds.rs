//! Durations of a plan.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::source::{Node, Tree};

/// A duration in seconds, ≥ 0; may be infinite where the key says so.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

impl Seconds {
    /// Whether it never ends.
    pub fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() { serializer.serialize_f64(self.0) } else { serializer.serialize_str("inf") }
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Seconds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of seconds or \"inf\"")
            }
            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Seconds, E> {
                Ok(Seconds(seconds))
            }
            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Seconds, E> {
                Ok(Seconds(seconds as f64))
            }
            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Seconds, E> {
                Ok(Seconds(seconds as f64))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Seconds, E> {
                parse(text).map(Seconds).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

/// The seconds a value means: a number, or a string with a unit. A bare number in a string is none.
pub(crate) fn of_node(node: &Node) -> Option<f64> {
    match &node.value {
        Tree::Int(number) => Some(*number as f64),
        Tree::Float(number) if !number.is_nan() => Some(*number),
        Tree::Text(text) => parse(text),
        _ => None,
    }
}

/// `500ms`, `90s`, `30m`, `2h`, `inf`.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let text = text.trim();
    if text == "inf" {
        return Some(f64::INFINITY);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.trim_end().parse().ok().filter(|number: &f64| number.is_finite())?;
    match text.get(digits.len()..)? {
        "ms" => Some(number / 1000.0),
        "s" => Some(number),
        "m" => Some(number * 60.0),
        "h" => Some(number * 3600.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        let cases =
            [("500ms", 0.5), ("90s", 90.0), ("30m", 1800.0), ("2h", 7200.0), ("1.5 h", 5400.0), ("899.999s", 899.999)];
        for (text, seconds) in cases {
            assert_eq!(parse(text), Some(seconds), "{text}");
        }
        assert_eq!(parse("inf"), Some(f64::INFINITY));
        for text in ["", "s", "10", "1d", "30 minutes", "0x10s", "1h30m", "infs", "nan", "NaNs", "--3s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
