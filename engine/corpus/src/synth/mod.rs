//! Synthetic sessions in the trace format: what a recorded corpus looks like, made from a seed.
//!
//! [`generate`] gives the traces of [`SynthOptions`] one by one; the same options give the same bytes everywhere. The
//! distributions (`tables`) are those of published coding-agent corpora: contexts that grow to 160 k tokens and are
//! compacted, or go on in a larger window; pauses for tools, for people, over night; helpers as subagent entries and as
//! plain rows.

mod draws;
mod format;
mod helpers;
mod options;
mod session;
mod tables;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

pub use options::{Shape, SynthError, SynthOptions};

/// One generated trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynthTrace {
    /// Its id, and the name of its file without `.json`.
    pub id: String,
    /// The trace, as JSON.
    pub json: String,
}

/// Generates the traces that `options` ask for, in order. A trace depends on the seed and its number alone, not on how
/// many are asked for.
pub fn generate(options: &SynthOptions) -> Result<impl Iterator<Item = Result<SynthTrace, SynthError>>, SynthError> {
    options.validate()?;
    let options = options.clone();
    Ok((0..options.traces).map(move |number| {
        let trace = session::trace(&options, number);
        let json = serde_json::to_string(&trace).map_err(SynthError::Format)?;
        Ok(SynthTrace { id: trace.id, json })
    }))
}
