//! The trace format as it is written.

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct TraceJson {
    pub(super) id: String,
    pub(super) models: Vec<&'static str>,
    pub(super) block_size: u32,
    pub(super) hash_id_scope: &'static str,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) tool_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) system_tokens: u64,
    pub(super) requests: Vec<RowJson>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum RowJson {
    Request(RequestJson),
    Agent(AgentJson),
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct RequestJson {
    pub(super) t: f64,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) model: &'static str,
    #[serde(rename = "in")]
    pub(super) input: u64,
    #[serde(rename = "out")]
    pub(super) output: u64,
    pub(super) hash_ids: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_types: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_types: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<&'static str>,
    pub(super) api_time: f64,
    pub(super) think_time: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct AgentJson {
    pub(super) t: f64,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) agent_id: String,
    pub(super) subagent_type: &'static str,
    pub(super) duration_ms: u64,
    pub(super) total_tokens: u64,
    pub(super) tool_use_count: Option<u64>,
    pub(super) status: &'static str,
    pub(super) requests: Vec<RequestJson>,
    pub(super) models: Vec<&'static str>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) tool_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) system_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl RowJson {
    pub(super) fn start(&self) -> f64 {
        match self {
            Self::Request(request) => request.t,
            Self::Agent(agent) => agent.t,
        }
    }

    /// All requests of the row.
    pub(super) fn requests(&mut self) -> &mut [RequestJson] {
        match self {
            Self::Request(request) => std::slice::from_mut(request),
            Self::Agent(agent) => &mut agent.requests,
        }
    }
}
