//! Dotted paths in trees of JSON values. A path is a list of names, since names in open maps may hold dots.

use serde_json::{Map, Value};

/// The value at a dotted path whose names hold no dots, save that the last part may (`target.headers.X.Y`).
pub(crate) fn get<'a>(root: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(value) = root.get(path) {
        return Some(value);
    }
    path.match_indices('.').find_map(|(dot, _)| get(root.get(&path[..dot])?.as_object()?, &path[dot + 1..]))
}

/// Puts a value at a dotted path, making the maps on the way.
pub(crate) fn put(root: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            root.insert(path.to_owned(), value);
        }
        Some((name, rest)) => {
            let below = root.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if !below.is_object() {
                *below = Value::Object(Map::new());
            }
            if let Some(below) = below.as_object_mut() {
                put(below, rest, value);
            }
        }
    }
}

/// Removes what is at a dotted path; whether there was something.
pub(crate) fn remove(root: &mut Map<String, Value>, path: &str) -> bool {
    if root.remove(path).is_some() {
        return true;
    }
    path.match_indices('.').any(|(dot, _)| {
        root.get_mut(&path[..dot]).and_then(Value::as_object_mut).is_some_and(|below| remove(below, &path[dot + 1..]))
    })
}

/// The same tree with the keys of every map sorted: its text is canonical.
pub(crate) fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut names: Vec<&String> = map.keys().collect();
            names.sort();
            Value::Object(names.into_iter().map(|name| (name.clone(), canonical(&map[name]))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_with_dots_are_found_and_removed() {
        let Value::Object(mut root) = json!({"a": {"b": {"x.y": 1}}}) else { unreachable!() };
        assert_eq!(get(&root, "a.b.x.y"), Some(&json!(1)));
        assert_eq!(get(&root, "a.b.x"), None);
        assert!(remove(&mut root, "a.b.x.y"));
        put(&mut root, "a.c.d", json!(2));
        assert_eq!(Value::Object(root), json!({"a": {"b": {}, "c": {"d": 2}}}));
    }
}
