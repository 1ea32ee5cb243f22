//! Request headers (`replay.md` §11.2).

use agentx_types::DispatchMeta;
use awc::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use uuid::Uuid;

use crate::body::streams;
use crate::error::WireError;
use crate::options::{SessionHeader, WireOptions};

/// The headers that all requests share, and the names of those that differ.
pub(crate) struct Headers {
    shared: HeaderMap,
    request_id: HeaderName,
    correlation: HeaderName,
    session: Vec<SessionHeader>,
}

impl Headers {
    pub(crate) fn new(options: &WireOptions) -> Result<Self, WireError> {
        let mut shared = HeaderMap::new();
        shared.insert(USER_AGENT, value("target.headers", "User-Agent", &options.user_agent)?);
        for (name, text) in &options.headers {
            shared.insert(header_name("target.headers", name)?, value("target.headers", name, text.expose())?);
        }
        if let Some(key) = &options.api_key {
            shared
                .insert(AUTHORIZATION, value("target.api_key", "Authorization", &format!("Bearer {}", key.expose()))?);
        }
        let accept = if streams(options) { "text/event-stream" } else { "application/json" };
        shared.insert(ACCEPT, HeaderValue::from_static(accept));
        shared.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Self {
            shared,
            request_id: HeaderName::from_static("x-request-id"),
            correlation: header_name("target.session_header_name", &options.session_header_name)?,
            session: options.session_headers.clone(),
        })
    }

    /// Headers of a request that belongs to no stream.
    pub(crate) fn plain(&self) -> &HeaderMap {
        &self.shared
    }

    /// Headers of one request. A user's own value for the ids stands; the session headers replace any.
    pub(crate) fn of(&self, meta: &DispatchMeta) -> HeaderMap {
        let mut headers = self.shared.clone();
        for (name, id) in [(&self.request_id, meta.x_request_id), (&self.correlation, meta.x_correlation_id)] {
            if !self.shared.contains_key(name) {
                headers.insert(name.clone(), id_value(id));
            }
        }
        for header in &self.session {
            let name = match header {
                SessionHeader::XSessionId => "x-session-id",
                SessionHeader::XSessionAffinity => "x-session-affinity",
                SessionHeader::XSmgRoutingKey => "x-smg-routing-key",
                SessionHeader::XDynamoSessionId => "x-dynamo-session-id",
            };
            headers.insert(HeaderName::from_static(name), id_value(meta.x_correlation_id));
            if let (SessionHeader::XDynamoSessionId, Some(parent)) = (header, meta.parent_correlation_id) {
                headers.insert(HeaderName::from_static("x-dynamo-parent-session-id"), id_value(parent));
            }
        }
        headers
    }
}

fn id_value(id: Uuid) -> HeaderValue {
    let mut buffer = Uuid::encode_buffer();
    let text: &str = id.hyphenated().encode_lower(&mut buffer);
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn header_name(key: &'static str, name: &str) -> Result<HeaderName, WireError> {
    HeaderName::try_from(name).map_err(|_| WireError::HeaderName { key, name: name.to_owned() })
}

fn value(key: &'static str, name: &str, text: &str) -> Result<HeaderValue, WireError> {
    HeaderValue::from_str(text).map_err(|_| WireError::HeaderValue { key, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use agentx_types::Secret;

    use super::*;
    use crate::testing;

    fn headers(options: &WireOptions, meta: &DispatchMeta) -> Vec<String> {
        let headers = Headers::new(options).map(|headers| headers.of(meta)).unwrap_or_default();
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or("?"))).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_request_says_who_it_is() {
        let mut meta = testing::meta();
        let mut options = WireOptions { user_agent: "agentx/0".to_owned(), ..WireOptions::default() };
        let plain = headers(&options, &meta);
        options.api_key = Some(Secret::new("k"));
        options.headers = vec![
            ("X-Session-ID".to_owned(), Secret::new("mine")),
            ("x-request-id".to_owned(), Secret::new("mine")),
            ("Accept".to_owned(), Secret::new("mine")),
        ];
        options.session_header_name = "X-Affinity".to_owned();
        options.streaming = false;
        options.session_headers = vec![
            SessionHeader::XSessionId,
            SessionHeader::XSessionAffinity,
            SessionHeader::XSmgRoutingKey,
            SessionHeader::XDynamoSessionId,
        ];
        let root = headers(&options, &meta);
        meta.parent_correlation_id = Some(Uuid::from_u128(3));
        let helper: Vec<String> = headers(&options, &meta).into_iter().filter(|line| !root.contains(line)).collect();
        insta::assert_snapshot!([plain.join("\n"), root.join("\n"), helper.join("\n")].join("\n--\n"));
    }
}
