//! What docs/json.md says of the lines of `--json`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The keys of each event: `## event` and, below it, rows of a table that begin with a key in backquotes.
pub fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let mut events = BTreeMap::new();
    let mut event = String::new();
    for row in include_str!("../../../docs/json.md").lines() {
        if let Some(head) = row.strip_prefix("## `") {
            event = head.trim_end_matches('`').to_string();
            events.insert(event.clone(), BTreeSet::new());
        } else if let (Some(key), Some(keys)) = (row.strip_prefix("| `"), events.get_mut(&event)) {
            keys.insert(key.split('`').next().unwrap_or_default().to_string());
        }
    }
    events
}

/// Keys of a value, those of objects within it as `outer.inner` and `outer[].inner`.
pub fn keys(value: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    add("", value, &mut all);
    all
}

fn add(prefix: &str, value: &Value, all: &mut BTreeSet<String>) {
    for (key, inner) in value.as_object().into_iter().flatten() {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        add(&key, inner, all);
        all.insert(key);
    }
    value.as_array().into_iter().flatten().for_each(|inner| add(&format!("{prefix}[]"), inner, all));
}
