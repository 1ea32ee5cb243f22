//! Values before they are trusted: any JSON value is taken, and what the schema wants is checked afterwards.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::context::Context;
use crate::error::SchemaProblem;

/// Times beyond this many seconds are no times (they would not survive the conversion to milliseconds).
const MAX_SECONDS: f64 = 1e12;

/// The longest text that an error message repeats, characters.
const QUOTED: usize = 40;

/// Any JSON value; lists and objects without their content.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    Text(String),
    List,
    Object,
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => write!(f, "null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Unsigned(value) => write!(f, "{value}"),
            Self::Negative(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(value) if value.chars().count() > QUOTED => {
                write!(f, "\"{}…\"", value.chars().take(QUOTED).collect::<String>())
            }
            Self::Text(value) => write!(f, "\"{value}\""),
            Self::List => write!(f, "a list"),
            Self::Object => write!(f, "an object"),
        }
    }
}

impl Scalar {
    /// The value as an unsigned integer; a float with zero fraction is one.
    pub(super) fn as_unsigned(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(value) => Some(value),
            Self::Float(value) if value >= 0.0 && value.fract() == 0.0 && value < 2_f64.powi(64) => Some(value as u64),
            _ => None,
        }
    }

    fn as_integer(&self) -> Option<i64> {
        match *self {
            Self::Negative(value) => Some(value),
            Self::Float(value) if value < 0.0 && value.fract() == 0.0 && value >= -(2_f64.powi(63)) => {
                Some(value as i64)
            }
            _ => self.as_unsigned().and_then(|value| i64::try_from(value).ok()),
        }
    }

    fn as_float(&self) -> Option<f64> {
        match *self {
            Self::Unsigned(value) => Some(value as f64),
            Self::Negative(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
        Ok(Scalar::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Ok(u64::try_from(value).map_or(Scalar::Negative(value), Scalar::Unsigned))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Scalar, E> {
        Ok(Scalar::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Scalar, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Object)
    }
}

/// A key's value, if the key was there.
pub(super) type Slot = Option<Scalar>;

/// Reads a plain value into its slot.
pub(super) fn read_scalar<'de, A: MapAccess<'de>>(
    context: &mut Context,
    slot: &mut Slot,
    key: &'static str,
    map: &mut A,
) -> Result<(), A::Error> {
    if slot.is_some() {
        context.repeated(key);
    }
    *slot = Some(map.next_value()?);
    Ok(())
}

/// Conversions of slots. A value of the wrong kind is noted and replaced by an empty one: the trace is refused anyway.
impl Context {
    fn convert<T: Default>(
        &mut self,
        key: &'static str,
        value: &Scalar,
        expected: &'static str,
        convert: impl FnOnce(&Scalar) -> Option<T>,
    ) -> T {
        convert(value).unwrap_or_else(|| {
            self.under_key(key, |context| context.wrong(expected, value.to_string()));
            T::default()
        })
    }

    fn required<T: Default>(
        &mut self,
        key: &'static str,
        slot: Option<&Scalar>,
        expected: &'static str,
        convert: impl FnOnce(&Scalar) -> Option<T>,
    ) -> T {
        if let Some(value) = slot {
            return self.convert(key, value, expected, convert);
        }
        self.missing(key, expected);
        T::default()
    }

    fn nullable<T>(
        &mut self,
        key: &'static str,
        slot: Option<&Scalar>,
        expected: &'static str,
        convert: impl FnOnce(&Scalar) -> Option<T>,
    ) -> Option<T> {
        match slot {
            None | Some(Scalar::Null) => None,
            Some(value) => self.convert(key, value, expected, |value| convert(value).map(Some)),
        }
    }

    /// Notes that a required key is not there.
    pub(super) fn missing(&mut self, key: &'static str, expected: &'static str) {
        self.under_key(key, |context| context.issue(SchemaProblem::Missing { expected }));
    }

    /// A required text.
    pub(super) fn text(&mut self, key: &'static str, slot: Option<&Scalar>) -> String {
        self.required(key, slot, "a string", as_text)
    }

    /// A text that may be left out.
    pub(super) fn text_or_empty(&mut self, key: &'static str, slot: Option<&Scalar>) -> String {
        self.text(key, slot.or(Some(&Scalar::Text(String::new()))))
    }

    /// A required text out of a few.
    pub(super) fn one_of(
        &mut self,
        key: &'static str,
        slot: Option<&Scalar>,
        accepted: &[&str],
        expected: &'static str,
    ) -> String {
        self.required(key, slot, expected, |value| as_text(value).filter(|text| accepted.contains(&text.as_str())))
    }

    /// A required number of tokens.
    pub(super) fn tokens(&mut self, key: &'static str, slot: Option<&Scalar>) -> u64 {
        self.required(key, slot, "an integer from 0 to 4294967295", as_tokens)
    }

    /// A number of tokens that may be left out.
    pub(super) fn tokens_or_zero(&mut self, key: &'static str, slot: Option<&Scalar>) -> u64 {
        self.tokens(key, slot.or(Some(&Scalar::Unsigned(0))))
    }

    /// A required number above 0.
    pub(super) fn positive(&mut self, key: &'static str, slot: Option<&Scalar>) -> u32 {
        self.required(key, slot, "an integer from 1 to 4294967295", |value| {
            value.as_unsigned().and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0)
        })
    }

    /// A required point in time, s.
    pub(super) fn start(&mut self, key: &'static str, slot: Option<&Scalar>) -> f64 {
        // Adding zero turns −0 into 0.
        self.required(key, slot, "a number of seconds of at least 0", |value| {
            as_seconds(value).filter(|time| *time >= 0.0).map(|time| time + 0.0)
        })
    }

    /// A span that may be null or left out, s.
    pub(super) fn seconds(&mut self, key: &'static str, slot: Option<&Scalar>) -> Option<f64> {
        self.nullable(key, slot, "a number of seconds or null", as_seconds)
    }

    /// An integer that may be null or left out.
    pub(super) fn integer(&mut self, key: &'static str, slot: Option<&Scalar>) -> Option<i64> {
        self.nullable(key, slot, "an integer or null", Scalar::as_integer)
    }
}

fn as_text(value: &Scalar) -> Option<String> {
    match value {
        Scalar::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn as_tokens(value: &Scalar) -> Option<u64> {
    value.as_unsigned().filter(|value| u32::try_from(*value).is_ok())
}

fn as_seconds(value: &Scalar) -> Option<f64> {
    value.as_float().filter(|time| time.abs() <= MAX_SECONDS)
}
