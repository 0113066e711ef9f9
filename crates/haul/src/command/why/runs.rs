//! What a run of `haul bench` shows, in a few sentences.

use std::collections::BTreeMap;
use std::path::Path;

use haul_bench::record::{self, Header, Outcome, Sample};
use haul_bench::stats::{Summary, Verdict, difference};
use haul_core::entry::show;
use haul_core::error::Result;
use serde_json::{Value, json};

use super::{WIDTH, columns, line};
use crate::render::{JSON_VERSION, fold};
use crate::units;

/// Contenders of which it is said what limited them.
const MOST: usize = 8;

/// All repetitions of one contender with the same factors.
struct Group {
    name: String,
    contender: String,
    factors: BTreeMap<String, Value>,
    /// Of those that count.
    seconds: Vec<f64>,
    bytes: Vec<f64>,
    /// How many ended otherwise, and why the first did.
    bad: BTreeMap<Outcome, (usize, Option<String>)>,
    limits: Vec<String>,
}

pub fn explain(dir: &Path, as_json: bool) -> Result<String> {
    let (header, samples) = record::read(dir)?;
    let groups = groups(&samples);
    let sentences = sentences(&header, &groups);
    if as_json {
        return Ok(line(&document(dir, &header, &groups, &sentences)));
    }
    let width = columns().unwrap_or(WIDTH);
    let mut text = String::new();
    for sentence in sentences {
        for line in fold(&sentence, width, if sentence.starts_with(' ') { 4 } else { 0 }) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    Ok(text)
}

/// In the order of their first sample.
fn groups(samples: &[Sample]) -> Vec<Group> {
    let mut keys: Vec<String> = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    for sample in samples.iter().filter(|sample| sample.repetition > 0) {
        let key = sample.key();
        let at = keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            keys.push(key);
            groups.push(Group {
                name: named(sample),
                contender: sample.contender.clone(),
                factors: sample.factors.clone(),
                seconds: Vec::new(),
                bytes: Vec::new(),
                bad: BTreeMap::new(),
                limits: Vec::new(),
            });
            groups.len() - 1
        });
        let group = &mut groups[at];
        if sample.counts() {
            group.seconds.extend(sample.seconds);
            group.bytes.extend(sample.rate());
            group.limits.extend(sample.limited_by.clone());
        } else {
            let bad = group.bad.entry(sample.outcome).or_default();
            bad.0 += 1;
            bad.1 = bad.1.take().or_else(|| sample.reason.clone());
        }
    }
    groups
}

/// `haul (direction put, streams 8)`.
fn named(sample: &Sample) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), |text| show(text.as_bytes()));
    let factors: Vec<String> = sample.factors.iter().map(|(name, value)| format!("{} {}", name.replace('_', " "), word(value))).collect();
    let contender = show(sample.contender.as_bytes());
    if factors.is_empty() { contender } else { format!("{contender} ({})", factors.join(", ")) }
}

fn sentences(header: &Header, groups: &[Group]) -> Vec<String> {
    let host = show(header.host.name.as_bytes());
    let mut all = vec![format!("A run of haul bench {} on {host}, begun {}.", header.kind.words(), header.started)];
    if header.ended.is_none() {
        all.push("It was interrupted or is still under way: what is said here holds for what there is.".into());
    }
    let mut ranked: Vec<(&Group, Summary)> = groups.iter().filter_map(|group| Some((group, Summary::of(&group.seconds)?))).collect();
    ranked.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    match &ranked[..] {
        [] => all.push("Nothing in it went well enough to be counted.".into()),
        [(only, summary)] => all.push(format!("{} took {} in the median of {}.", only.name, seconds(summary.median), summary.count)),
        [(first, best), (second, next), ..] => {
            all.push(format!("Fastest was {}: {} in the median of {}{}.", first.name, seconds(best.median), best.count, rate(first)));
            all.push(next_best(first, best, second, next));
            let (last, worst) = ranked[ranked.len() - 1];
            if ranked.len() > 2 {
                all.push(format!("Slowest was {}: {}, {:.1} times as long.", last.name, seconds(worst.median), worst.median / best.median));
            }
        }
    }
    let mut said = 0;
    for (group, _) in &ranked {
        let Some((limit, times)) = usual(&group.limits) else { continue };
        said += 1;
        if said <= MOST {
            let often =
                if times == group.limits.len() { String::new() } else { format!(" (said by {times} of {} runs)", group.limits.len()) };
            all.push(format!("  {} was limited by {limit}{often}.", group.name));
        }
    }
    if said == 0 {
        all.push("None of its contenders says what limited it: only haul does, when it copies.".into());
    } else if said > MOST {
        all.push(format!("  {} slower ones are left out here; --json has them all.", said - MOST));
    }
    for group in groups {
        for (outcome, (count, reason)) in &group.bad {
            let why = reason.as_ref().map_or(String::new(), |reason| format!(" ({})", show(reason.as_bytes())));
            let runs = if *count == 1 { "1 run".to_string() } else { format!("{count} runs") };
            all.push(format!("{runs} of {} did not count: {}{why}.", group.name, outcome.words()));
        }
    }
    all.extend(header.notes.iter().map(|note| format!("Note: {}", show(note.as_bytes()))));
    all
}

fn next_best(first: &Group, best: &Summary, second: &Group, next: &Summary) -> String {
    let shown = difference(&first.seconds, &second.seconds).map_or(Verdict::NotShown, |difference| difference.verdict);
    match shown {
        Verdict::NotShown => {
            format!(
                "Next was {} with {}: too close, or measured too few times, to call one of the two faster.",
                second.name,
                seconds(next.median)
            )
        }
        _ => format!("Next was {} with {}, {:.2} times as long.", second.name, seconds(next.median), next.median / best.median),
    }
}

/// What was said most often, of those that mean the same: the numbers in them differ from run to run.
fn usual(limits: &[String]) -> Option<(&str, usize)> {
    let kind = |limit: &str| limit.split([':', '(', ',']).next().unwrap_or_default().trim().to_string();
    let mut counts: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    for limit in limits {
        counts.entry(kind(limit)).or_insert((0, limit)).0 += 1;
    }
    counts.into_values().max_by_key(|(count, _)| *count).map(|(count, limit)| (limit, count))
}

fn seconds(n: f64) -> String {
    if n < 10.0 { format!("{n:.2} s") } else { format!("{n:.1} s") }
}

fn rate(group: &Group) -> String {
    Summary::of(&group.bytes).map_or(String::new(), |summary| format!(", {}", units::rate(summary.median)))
}

fn document(dir: &Path, header: &Header, groups: &[Group], sentences: &[String]) -> Value {
    let group = |group: &Group| {
        json!({
            "contender": group.contender,
            "factors": group.factors,
            "repetitions": group.seconds.len(),
            "median_seconds": Summary::of(&group.seconds).map(|summary| summary.median),
            "limited_by": usual(&group.limits).map(|(limit, _)| limit),
            "not_counted": group.bad.values().map(|(count, _)| count).sum::<usize>(),
        })
    };
    json!({
        "event": "why-run",
        "version": JSON_VERSION,
        "run": show(dir.as_os_str().as_encoded_bytes()),
        "kind": header.kind.words(),
        "contenders": groups.iter().map(group).collect::<Vec<_>>(),
        "sentences": sentences,
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use haul_bench::record::Kind;

    fn sample(contender: &str, repetition: u32, seconds: f64, limited_by: Option<&str>) -> Sample {
        let limited_by = limited_by.map(str::to_string);
        Sample { contender: contender.into(), repetition, seconds: Some(seconds), bytes: Some(30 << 20), limited_by, ..Sample::default() }
    }

    fn told(samples: &[Sample]) -> String {
        let mut header = Header { kind: Kind::Compare, started: "2026-01-02T03:04:05Z".into(), ..Header::default() };
        header.host.name = "node7".into();
        sentences(&header, &groups(samples)).join("\n")
    }

    pub fn document_of_two() -> Value {
        let groups = groups(&[sample("haul", 1, 2.0, Some("the network: 90%")), sample("cp", 1, 2.1, None)]);
        document(Path::new("run"), &Header::default(), &groups, &["a".into()])
    }

    #[test]
    fn the_table_in_words() {
        let mut samples = vec![sample("haul", 0, 9.0, None)];
        for n in 1..=5 {
            samples.push(sample("cp", n, 4.0 + f64::from(n) / 100.0, None));
            let limit = if n == 2 { "reading the source: 51%" } else { "writing the destination: 80%" };
            samples.push(sample("haul", n, 2.0 + f64::from(n) / 100.0, Some(limit)));
        }
        let lost = Sample { outcome: Outcome::Wrong, reason: Some("2 files differ".into()), ..sample("rcp", 1, 0.1, None) };
        samples.push(lost);
        insta::assert_snapshot!(told(&samples), @r"
        A run of haul bench compare on node7, begun 2026-01-02T03:04:05Z.
        It was interrupted or is still under way: what is said here holds for what there is.
        Fastest was haul: 2.03 s in the median of 5, 14.8 MiB/s.
        Next was cp with 4.03 s, 1.99 times as long.
          haul was limited by writing the destination: 80% (said by 4 of 5 runs).
        1 run of rcp did not count: WRONG (2 files differ).
        ");
    }

    #[test]
    fn too_few_to_tell_and_nothing_at_all() {
        let close = told(&[sample("haul", 1, 2.0, None), sample("cp", 1, 2.1, None)]);
        assert!(close.contains("too close, or measured too few times"), "{close}");
        let none = told(&[Sample { outcome: Outcome::Missing, ..sample("cp", 1, 1.0, None) }]);
        assert!(none.contains("Nothing in it went well") && none.contains("1 run of cp did not count: missing"), "{none}");
    }
}
