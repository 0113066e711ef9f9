//! Every dependency's declared licence is one that Apache-2.0 OR MIT can be combined with.

use std::process::Command;

const FINE: [&str; 11] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
];

/// SPDX as far as crates use it: alternatives by OR or `/`, conjunctions by AND, brackets round alternatives.
fn is_fine(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    expression.split(" AND ").all(|part| {
        let part = part.trim().trim_matches(|c| c == '(' || c == ')');
        part.split(" OR ").any(|one| FINE.contains(&one.trim().trim_matches(|c| c == '(' || c == ')')))
    })
}

#[test]
fn every_dependency_has_a_compatible_licence() {
    let out = Command::new(env!("CARGO")).args(["metadata", "--format-version", "1", "--locked"]).output().expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 20);
    let bad: Vec<String> = packages
        .iter()
        .filter(|p| !p["license"].as_str().is_some_and(is_fine))
        .map(|p| format!("{} {}: {}", p["name"], p["version"], p["license"]))
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn the_reading_of_licences_refuses_what_it_should() {
    assert!(is_fine("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(is_fine("Apache-2.0/MIT"));
    assert!(!is_fine("GPL-3.0"));
    assert!(!is_fine("MIT AND GPL-3.0"));
}
