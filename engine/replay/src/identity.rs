//! Names made from the run's identity: cache-bust markers, tree, stream and request ids (`replay.md` §12, §14).

use std::sync::Arc;

use agentx_types::{LaneIndex, Marker, MarkerTarget, PlayNumber, RequestKey};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Makes all names of one run from its benchmark id.
#[derive(Clone, Debug)]
pub struct Identity {
    benchmark_id: Arc<str>,
}

impl Identity {
    /// Names for the run `benchmark_id`.
    pub fn new(benchmark_id: &str) -> Self {
        Self { benchmark_id: benchmark_id.into() }
    }

    /// The marker of a play: the first 12 hex digits of SHA-256 over `{benchmark_id}:{pass}:{lane}:{trace}`, where `pass`
    /// counts the plays of that trace in the run from 0.
    pub fn marker(&self, pass: u64, lane: LaneIndex, trace: &str, target: MarkerTarget) -> Option<Marker> {
        if target == MarkerTarget::None {
            return None;
        }
        let digest = Sha256::digest(format!("{}:{pass}:{lane}:{trace}", self.benchmark_id));
        let digits = digest[..6].iter().fold(0_u64, |digits, byte| (digits << 8) | u64::from(*byte));
        Some(Marker { text: format!("[rid:{digits:012x}]").into(), target })
    }

    /// The id of a stream; the root's is also the tree's.
    pub fn stream(&self, lane: LaneIndex, play: PlayNumber, conversation: &str) -> Uuid {
        self.uuid(&format!("stream:{lane}:{play}:{conversation}"))
    }

    /// `X-Request-ID` of a dispatch.
    pub fn request(&self, key: RequestKey) -> Uuid {
        self.uuid(&format!("request:{key}"))
    }

    fn uuid(&self, name: &str) -> Uuid {
        let digest = Sha256::digest(format!("{}:{name}", self.benchmark_id));
        uuid::Builder::from_random_bytes(digest[..16].try_into().unwrap_or_default()).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(benchmark_id: &str, lane: u32, trace: &str) -> String {
        let marker = Identity::new(benchmark_id).marker(0, LaneIndex(lane), trace, MarkerTarget::FirstTurnPrefix);
        marker.map(|m| m.text.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_markers_of_the_specification() {
        assert_eq!(text("b", 0, "t"), "[rid:c3d891b19121]");
        let third = Identity::new("agentx-test").marker(3, LaneIndex(17), "trace_0277", MarkerTarget::SystemPrefix);
        assert_eq!(third.map(|m| m.text.to_string()).as_deref(), Some("[rid:564924f41121]"));
        assert_eq!(Identity::new("b").marker(0, LaneIndex(0), "t", MarkerTarget::None), None);
    }

    #[test]
    fn ids_differ_by_play_and_conversation_and_repeat_for_the_same_run() {
        let identity = Identity::new("0123456789ab");
        let id = |play, conversation| identity.stream(LaneIndex(1), PlayNumber(play), conversation);
        assert_ne!(id(1, "a"), id(2, "a"));
        assert_ne!(id(1, "a"), id(1, "a::sa:b"));
        assert_eq!(id(1, "a"), Identity::new("0123456789ab").stream(LaneIndex(1), PlayNumber(1), "a"));
        assert_eq!(id(1, "a").get_version_num(), 4);
    }
}
