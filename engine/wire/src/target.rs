//! Where requests go.

use awc::http::Uri;

use crate::error::WireError;

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) uri: Uri,
}

impl Target {
    /// Joins a base URL and a path: `http://` is prepended if there is no scheme, and `/v1` is not doubled.
    pub(crate) fn new(url: &str, path: &str) -> Result<Self, WireError> {
        let is_path = path.starts_with('/') && !path.contains(|c: char| c.is_whitespace() || c == '#');
        if !is_path {
            return Err(WireError::Path { path: path.to_owned() });
        }
        let text = url.trim();
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        // What stands before an `@` may be a password: it is not repeated in a message.
        let shown = match (text.split_once("://"), text.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
            _ => url.to_owned(),
        };
        let wrong = |problem: &str| WireError::Url { url: shown.clone(), problem: problem.to_owned() };
        if text.contains('@') {
            return Err(wrong("holds credentials: put a key into target.api_key, other schemes into target.headers"));
        }
        if text.contains(['?', '#']) {
            return Err(wrong("holds a query or a fragment: put a query into target.path"));
        }
        let base = text.trim_end_matches('/');
        let base = if path.starts_with("/v1/") { base.strip_suffix("/v1").unwrap_or(base) } else { base };
        let uri: Uri = format!("{base}{path}").parse().map_err(|_| wrong("is not a URL: write http://host:port"))?;
        match uri.scheme_str() {
            Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => Ok(Self { uri }),
            Some("http" | "https") => Err(wrong("names no host: write http://host:port")),
            _ => Err(wrong("has an unknown scheme: only http and https are spoken")),
        }
    }

    /// The same endpoint under an authority of its own, so that the connection pool keeps its connections apart. The
    /// user part never leaves the client: neither the request line nor the `Host` header holds it.
    pub(crate) fn apart(&self, ordinal: u64) -> Uri {
        let scheme = self.uri.scheme_str().unwrap_or("http");
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        format!("{scheme}://stream-{ordinal}@{authority}{path}").parse().unwrap_or_else(|_| self.uri.clone())
    }
}

#[cfg(test)]
mod tests {
    use awc::http::uri::{Authority, PathAndQuery};

    use super::*;

    #[test]
    fn urls_join_without_doubling() {
        let join = |url, path| Target::new(url, path).map(|target| target.uri.to_string()).unwrap_or_default();
        let chat = "/v1/chat/completions";
        for url in [
            "localhost:8000",
            "http://localhost:8000",
            "http://localhost:8000/",
            "localhost:8000/v1",
            "localhost:8000/v1/",
        ] {
            assert_eq!(join(url, chat), "http://localhost:8000/v1/chat/completions", "{url}");
        }
        assert_eq!(join("https://h/api/v1", chat), "https://h/api/v1/chat/completions");
        assert_eq!(join("h:1/base", "/generate?v=2"), "http://h:1/base/generate?v=2");
        assert_eq!(join("[::1]:80", chat), "http://[::1]:80/v1/chat/completions");
    }

    #[test]
    fn a_stream_of_its_own_changes_only_the_user_part() -> Result<(), WireError> {
        let uri = Target::new("http://h:8000", "/v1/x?y=1")?.apart(7);
        assert_eq!((uri.host(), uri.port_u16()), (Some("h"), Some(8000)));
        assert_eq!(uri.path_and_query().map(PathAndQuery::as_str), Some("/v1/x?y=1"));
        assert_eq!(uri.authority().map(Authority::as_str), Some("stream-7@h:8000"));
        Ok(())
    }
}
