//! What was asked for, as a person reads it: names for keys, units for numbers, and nothing for what was not set.

use std::collections::BTreeMap;

use serde_json::Value;

use super::point::capital;
use crate::plot::Unit;

/// Names that say more than the key with blanks in it does.
const NAMES: [(&str, &str); 17] = [
    ("file_count", "Files per thread"),
    ("file_sizes", "File sizes"),
    ("files_per_dir", "Files per directory"),
    ("total", "Files in all"),
    ("same_dir", "Shared directories"),
    ("record_size", "Bytes of one read or write"),
    ("fsync", "fsync of each file"),
    ("verify_read", "Content verified when read"),
    ("xattr_size", "Size of an extended attribute"),
    ("xattr_count", "Extended attributes per file"),
    ("duration_seconds", "Time limit of an operation"),
    ("limit_seconds", "Time limit of a copy"),
    ("seconds", "Time of a measurement"),
    ("small", "Small files"),
    ("repeat", "Repetitions"),
    ("warmup", "Warm-ups"),
    ("seed", "Seed of the order"),
];

/// What stands elsewhere on the page, or is for programs.
const LEFT_OUT: [&str; 7] = ["caches", "caches_before", "extrapolate_bytes", "source_hash", "source", "destination", "host"];

/// Names and values.
pub fn words(settings: &BTreeMap<String, Value>) -> Vec<(String, String)> {
    settings.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())).flat_map(|(key, value)| one(key, value)).collect()
}

fn one(key: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        // A setting of several parts: each is one.
        Value::Object(parts) => parts
            .iter()
            .flat_map(|(part, value)| match key {
                "commands" => named(&format!("Command of {part}"), part, value).into_iter().collect(),
                _ => one(part, value),
            })
            .collect(),
        value => {
            let known = NAMES.iter().find(|(of, _)| *of == key).map(|(_, name)| name.to_string());
            let plain = || capital(&key.trim_end_matches("_seconds").trim_end_matches("_bytes").replace('_', " "));
            let plain = if key == "source_bytes" { "Source size".into() } else { known.unwrap_or_else(plain) };
            named(&plain, key, value).into_iter().collect()
        }
    }
}

fn named(name: &str, key: &str, value: &Value) -> Option<(String, String)> {
    let value = shown(key, value)?;
    Some((name.to_string(), value))
}

/// `None` for what was not set.
fn shown(key: &str, value: &Value) -> Option<String> {
    let sized = ["size", "bytes", "chunk"].iter().any(|word| key.contains(word));
    match value {
        Value::Null => None,
        Value::Bool(yes) => Some(if *yes { "yes".into() } else { "no".into() }),
        Value::Number(number) => {
            let value = number.as_f64().unwrap_or(f64::NAN);
            Some(match key {
                _ if sized => Unit::Bytes.show(value),
                "seconds" | "duration_seconds" | "limit_seconds" => Unit::Seconds.show(value),
                // A name, not an amount.
                "seed" => number.to_string(),
                _ => crate::plot::unit::digits(value),
            })
        }
        Value::String(text) => Some(text.clone()),
        Value::Array(all) => {
            let all: Vec<String> = all.iter().filter_map(|one| shown(key, one)).collect();
            (!all.is_empty()).then(|| all.join(", "))
        }
        Value::Object(_) => Some(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_raw_is_shown() {
        let settings = json!({
            "duration_seconds": null, "file_sizes": [4096, 6500], "same_dir": [true, false], "fsync": false, "limit_seconds": 600.0,
            "seed": 1234567, "tools": ["haul", "cp"], "commands": {"cp": "cp -r {src} {dst}/"}, "source_bytes": 320190, "source_files": 21000,
            "grid": {"workers": [1, 2], "chunk": [], "directions": ["put"]}, "caches": "auto", "caches_before": "dropped", "extrapolate": "13TB", "new_thing": 7
        });
        let words = words(&serde_json::from_value(settings).unwrap());
        let words: Vec<(&str, &str)> = words.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            words,
            [
                ("Command of cp", "cp -r {src} {dst}/"),
                ("Extrapolate", "13TB"),
                ("File sizes", "4 KiB, 6.35 KiB"),
                ("fsync of each file", "no"),
                ("Directions", "put"),
                ("Workers", "1, 2"),
                ("Time limit of a copy", "10m00s"),
                ("New thing", "7"),
                ("Shared directories", "yes, no"),
                ("Seed of the order", "1234567"),
                ("Source size", "313 KiB"),
                ("Source files", "21,000"),
                ("Tools", "haul, cp"),
            ]
        );
    }
}
