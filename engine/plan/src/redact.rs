//! What must not be shown is not shown.

use serde_json::Value;

/// What stands in a secret's place.
pub(crate) const REDACTED: &str = "<redacted>";

/// Redacts a whole tree of plan values: the API key, headers that carry credentials, credentials in addresses,
/// whatever is called a token, key, secret or password in the extra inputs.
pub(crate) fn tree(root: &mut Value) {
    let Some(target) = root.get_mut("target").and_then(Value::as_object_mut) else { return };
    if let Some(key) = target.get_mut("api_key")
        && !key.is_null()
    {
        *key = REDACTED.into();
    }
    for map in ["headers", "extra_inputs"] {
        for (name, value) in target.get_mut(map).and_then(Value::as_object_mut).into_iter().flatten() {
            if is_telling(name) {
                *value = REDACTED.into();
            }
        }
    }
    for url in target.get_mut("urls").and_then(Value::as_array_mut).into_iter().flatten() {
        redact_url(url);
    }
    let metrics = root.get_mut("metrics").and_then(Value::as_object_mut).into_iter().flatten();
    for (_, group) in metrics {
        for url in group.get_mut("urls").and_then(Value::as_array_mut).into_iter().flatten() {
            redact_url(url);
        }
    }
}

/// Redacts one leaf by its dotted path.
pub(crate) fn leaf(path: &str, value: &Value) -> Value {
    if path == "target.api_key" && !value.is_null() {
        return REDACTED.into();
    }
    let in_map = path.strip_prefix("target.headers.").or_else(|| path.strip_prefix("target.extra_inputs."));
    if in_map.is_some_and(is_telling) {
        return REDACTED.into();
    }
    let mut value = value.clone();
    if path.ends_with("urls") {
        for url in value.as_array_mut().into_iter().flatten() {
            redact_url(url);
        }
    }
    value
}

/// Whether a name says that its value is a credential.
fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let parts = ["authorization", "cookie", "secret", "password", "credential", "api-key", "apikey", "access-key"];
    parts.iter().any(|part| name.contains(part)) || name.split('-').any(|word| matches!(word, "key" | "token" | "auth"))
}

/// `https://user:word@host` → `https://<redacted>@host`; queries go as well.
fn redact_url(url: &mut Value) {
    let Some(text) = url.as_str() else { return };
    let Some((scheme, rest)) = text.split_once("://") else { return };
    let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = host.rsplit_once('@').map_or(host.to_owned(), |(_, host)| format!("{REDACTED}@{host}"));
    let path = path.map(|path| format!("/{}", path.split_once('?').map_or(path, |(path, _)| path)));
    *url = format!("{scheme}://{host}{}", path.unwrap_or_default()).into();
}

/// Serde of the API key: read as it is, written redacted.
pub(crate) mod secret {
    use agentx_types::Secret;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "the signature serde's `with` asks for")]
    pub(crate) fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
        match secret {
            Some(_) => serializer.serialize_str(super::REDACTED),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
    }
}
