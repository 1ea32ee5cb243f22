//! Newtypes for everything that is counted from zero.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! index {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number as an index into a slice.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            fn from(value: usize) -> Self {
                Self(value as $inner)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index!(
    /// One of `concurrency` slots, from 0.
    LaneIndex(u32)
);
index!(
    /// A play, over the whole run: initial lanes are `0..concurrency`, each recycle is one more.
    PlayNumber(u64)
);
index!(
    /// A session template's position in the loaded corpus.
    TemplateIndex(u32)
);
index!(
    /// A conversation's position in its template; 0 is the root.
    ConversationIndex(u32)
);
index!(
    /// A turn's position in its conversation.
    TurnIndex(u32)
);
index!(
    /// A branch's position in its template.
    BranchIndex(u32)
);
index!(
    /// One dispatched request; unique in the run, in order of dispatch.
    RequestKey(u64)
);
