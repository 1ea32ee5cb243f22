//! Lists and objects: seeds that take the right shape and note any other as an issue.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::context::Context;
use super::field::Scalar;
use super::trace::InputTypes;
use crate::runs;
use crate::template::Runs;

/// What reads a list or an object once its shape is known to be right.
pub(super) trait Shape: Sized {
    /// What it becomes.
    type Value;

    /// What the schema asks for, for messages.
    const EXPECTED: &'static str;

    /// Reads a list; the default notes that none was expected.
    fn list<'de, A: SeqAccess<'de>>(self, context: &mut Context, mut list: A) -> Result<Option<Self::Value>, A::Error> {
        context.wrong(Self::EXPECTED, Scalar::List.to_string());
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    /// Reads an object; the default notes that none was expected.
    fn object<'de, A: MapAccess<'de>>(
        self,
        context: &mut Context,
        mut map: A,
    ) -> Result<Option<Self::Value>, A::Error> {
        context.wrong(Self::EXPECTED, Scalar::Object.to_string());
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    /// Whether null stands for an absent value.
    fn null_is_absent(&self) -> bool {
        false
    }
}

/// Reads a value of one shape; `None` when it had another, which is then noted.
pub(super) struct Shaped<'a, S> {
    pub(super) context: &'a mut Context,
    pub(super) shape: S,
}

impl<'de, S: Shape> DeserializeSeed<'de> for Shaped<'_, S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<S: Shape> Shaped<'_, S> {
    fn refuse(self, found: &Scalar) -> Option<S::Value> {
        self.context.wrong(S::EXPECTED, found.to_string());
        None
    }
}

impl<'de, S: Shape> Visitor<'de> for Shaped<'_, S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(S::EXPECTED)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        let found = &Scalar::Null;
        Ok(if self.shape.null_is_absent() { None } else { self.refuse(found) })
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(self.refuse(&Scalar::Bool(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(self.refuse(&Scalar::Unsigned(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(self.refuse(&Scalar::Negative(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(self.refuse(&Scalar::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.refuse(&Scalar::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        self.shape.list(self.context, list)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        self.shape.object(self.context, map)
    }
}

/// Reads the value of a key in one shape.
pub(super) fn read_shape<'de, A: MapAccess<'de>, S: Shape>(
    context: &mut Context,
    key: &'static str,
    map: &mut A,
    shape: S,
) -> Result<Option<S::Value>, A::Error> {
    context.under_key(key, |context| map.next_value_seed(Shaped { context, shape }))
}

/// A list of texts, of which only the content types matter.
pub(super) struct Texts;

impl Shape for Texts {
    type Value = InputTypes;
    const EXPECTED: &'static str = "a list of strings";

    fn list<'de, A: SeqAccess<'de>>(self, context: &mut Context, mut list: A) -> Result<Option<InputTypes>, A::Error> {
        let mut types = InputTypes::Unknown;
        let mut index = 0;
        while let Some(value) = list.next_element::<Scalar>()? {
            match value {
                Scalar::Text(text) if text == "tool_result" => types = InputTypes::ToolResult,
                Scalar::Text(_) if types == InputTypes::Unknown => types = InputTypes::Other,
                Scalar::Text(_) => {}
                other => context.under_index(index, |context| context.wrong("a string", other.to_string())),
            }
            index += 1;
        }
        Ok(Some(types))
    }
}

/// A row of hash ids.
pub(super) struct HashIds;

/// Wrong ids noted per row; the rest of a row that is wrong throughout adds nothing.
const NOTED_IDS: usize = 3;

impl Shape for HashIds {
    type Value = (Runs, u32);
    const EXPECTED: &'static str = "a list of integers of at least 0";

    fn list<'de, A: SeqAccess<'de>>(self, context: &mut Context, mut list: A) -> Result<Option<(Runs, u32)>, A::Error> {
        let mut ids = Runs::new();
        let (mut index, mut wrong) = (0, 0);
        while let Some(value) = list.next_element::<Scalar>()? {
            match value.as_unsigned() {
                Some(id) => runs::push_id(&mut ids, id),
                None if wrong < NOTED_IDS => {
                    wrong += 1;
                    context.under_index(index, |context| context.wrong("an integer of at least 0", value.to_string()));
                }
                None => {}
            }
            index += 1;
        }
        Ok(Some((ids, index as u32)))
    }
}

/// An object whose content does not matter.
pub(super) struct Totals;

impl Shape for Totals {
    type Value = ();
    const EXPECTED: &'static str = "an object or null";

    fn object<'de, A: MapAccess<'de>>(self, _context: &mut Context, mut map: A) -> Result<Option<()>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Some(()))
    }

    fn null_is_absent(&self) -> bool {
        true
    }
}
