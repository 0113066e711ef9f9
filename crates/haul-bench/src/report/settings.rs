//! Settings of a run as a person reads them: names for keys, units for numbers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::point::{factor_title, factor_value};
use crate::plot::Unit;

/// Shown elsewhere on the page, or for programs.
const LEFT_OUT: [&str; 7] = ["caches", "caches_before", "extrapolate_bytes", "source_hash", "source", "destination", "host"];

/// Names and values; unset settings are left out.
pub fn words(settings: &BTreeMap<String, Value>) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for (key, value) in settings.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())) {
        match value {
            Value::Object(parts) if key == "commands" => {
                out.extend(parts.iter().filter_map(|(tool, command)| Some((format!("Command of {tool}"), shown(tool, command)?))));
            }
            Value::Object(parts) => out.extend(parts.iter().filter_map(|(part, value)| Some((title(part), shown(part, value)?)))),
            value => out.extend(shown(key, value).map(|value| (title(key), value))),
        }
    }
    out
}

fn title(key: &str) -> String {
    factor_title(key.trim_end_matches("_seconds").trim_end_matches("_bytes"))
}

/// `None` if it is not set.
fn shown(key: &str, value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(yes) => Some(if *yes { "yes" } else { "no" }.into()),
        Value::Number(number) if key.ends_with("seconds") => Some(Unit::Seconds.show(number.as_f64()?)),
        // A name, not an amount.
        Value::Number(number) if key == "seed" => Some(number.to_string()),
        Value::Array(all) => {
            let all: Vec<String> = all.iter().filter_map(|one| shown(key, one)).collect();
            (!all.is_empty()).then(|| all.join(", "))
        }
        value => Some(factor_value(key, value)),
    }
}
