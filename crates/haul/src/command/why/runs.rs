//! What a run of `haul bench` shows, in a few sentences.

use std::collections::BTreeMap;
use std::path::Path;

use haul_bench::net::ROUND_TRIP;
use haul_bench::record::{self, ENOUGH, Header, Kind, Outcome, Sample};
use haul_bench::stats::{Summary, Verdict, difference};
use haul_core::entry::show;
use haul_core::error::Result;
use serde_json::{Value, json};

use super::{WIDTH, columns, line};
use crate::render::{JSON_VERSION, fold};
use crate::units;

/// Contenders of which it is said what limited them, and kinds of work of which it is said who was best.
const MOST: usize = 8;

/// What is better or worse in a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// All did the same work.
    Time,
    /// Each ran for as long as was asked for.
    Operations,
    Bytes,
}

impl Measure {
    fn of(kind: Kind) -> Measure {
        match kind {
            Kind::Compare | Kind::Sweep => Measure::Time,
            Kind::Files => Measure::Operations,
            Kind::Net => Measure::Bytes,
        }
    }

    /// Of these samples, seconds for a unit of work: less is better.
    fn costs(self, group: &Group) -> Vec<f64> {
        let rates = match self {
            Measure::Time => return group.seconds.clone(),
            Measure::Operations => &group.operations,
            Measure::Bytes => &group.bytes,
        };
        rates.iter().filter(|rate| **rate > 0.0).map(|rate| 1.0 / rate).collect()
    }

    fn show(self, cost: f64) -> String {
        match self {
            Measure::Time => seconds(cost),
            Measure::Operations if cost > 0.1 => format!("{:.2} operations/s", 1.0 / cost),
            Measure::Operations => format!("{} operations/s", units::count((1.0 / cost).round() as u64)),
            Measure::Bytes => units::rate(1.0 / cost),
        }
    }

    /// How a cost beside the best is told.
    fn beside(self, times: f64, digits: usize) -> String {
        match self {
            Measure::Time => format!("{times:.digits$} times as long"),
            Measure::Operations | Measure::Bytes => format!("for which the same takes {times:.digits$} times as long"),
        }
    }

    /// The factors that make another work: only within the same ones is anything faster. `None` where all do.
    fn work(kind: Kind) -> Option<&'static [&'static str]> {
        match kind {
            Kind::Compare => None,
            Kind::Files => Some(&["operation", "file_size"]),
            Kind::Net | Kind::Sweep => Some(&["direction"]),
        }
    }
}

/// All repetitions of one contender with the same factors.
struct Group {
    name: String,
    contender: String,
    factors: BTreeMap<String, Value>,
    /// Of those that count.
    seconds: Vec<f64>,
    /// Bytes a second, and operations a second.
    bytes: Vec<f64>,
    operations: Vec<f64>,
    /// How many ended otherwise, and why the first did.
    bad: BTreeMap<Outcome, (usize, Option<String>)>,
    limits: Vec<String>,
    /// Too few of the files count for a sound rate.
    partial: bool,
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
    // A wrong result counts in a warm-up, too.
    for sample in samples.iter().filter(|sample| sample.repetition > 0 || sample.outcome == Outcome::Wrong) {
        let key = sample.key();
        let at = keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            keys.push(key);
            groups.push(Group {
                name: named(sample),
                contender: sample.contender.clone(),
                factors: sample.factors.clone(),
                seconds: Vec::new(),
                bytes: Vec::new(),
                operations: Vec::new(),
                bad: BTreeMap::new(),
                limits: Vec::new(),
                partial: false,
            });
            groups.len() - 1
        });
        let group = &mut groups[at];
        if sample.counts() {
            group.partial |= sample.partial().is_some();
            group.seconds.extend(sample.seconds);
            group.bytes.extend(sample.rate());
            group.operations.extend(sample.operations_rate());
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
    let word = |value: &Value| show(value.as_str().map_or_else(|| value.to_string(), str::to_string).as_bytes());
    let factor = |(name, value): (&String, &Value)| format!("{} {}", show(name.replace('_', " ").as_bytes()), word(value));
    let factors: Vec<String> = sample.factors.iter().map(factor).collect();
    let contender = show(sample.contender.as_bytes());
    if factors.is_empty() { contender } else { format!("{contender} ({})", factors.join(", ")) }
}

/// Groups that did the same work, in the order of their first sample; what is no contender is in none.
fn works(kind: Kind, groups: &[Group]) -> Vec<Vec<&Group>> {
    let key = |group: &Group| -> String {
        let of = |name: &&str| group.factors.get(*name).map(ToString::to_string).unwrap_or_default();
        match Measure::work(kind) {
            None => serde_json::to_string(&group.factors).unwrap_or_default(),
            Some(names) => names.iter().map(of).collect::<Vec<_>>().join("\n"),
        }
    };
    let mut at: BTreeMap<String, usize> = BTreeMap::new();
    let mut works: Vec<Vec<&Group>> = Vec::new();
    for group in groups.iter().filter(|group| group.contender != ROUND_TRIP) {
        let place = *at.entry(key(group)).or_insert_with(|| {
            works.push(Vec::new());
            works.len() - 1
        });
        works[place].push(group);
    }
    works
}

fn is_wrong(group: &Group) -> bool {
    group.bad.contains_key(&Outcome::Wrong)
}

/// By what the same work costs, the best first.
fn ranked<'a>(measure: Measure, work: &[&'a Group]) -> Vec<(&'a Group, Summary)> {
    let right = work.iter().filter(|group| !is_wrong(group) && !group.partial);
    let mut ranked: Vec<(&Group, Summary)> = right.filter_map(|group| Some((*group, Summary::of(&measure.costs(group))?))).collect();
    ranked.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    ranked
}

fn sentences(header: &Header, groups: &[Group]) -> Vec<String> {
    let host = show(header.host.name.as_bytes());
    let begun = show(header.started.as_bytes());
    let mut all = vec![format!("A run of haul bench {} on {host}, started {begun}.", header.kind.words())];
    if header.ended.is_none() {
        all.push("It was interrupted or is still running: these results are partial.".into());
    }
    let measure = Measure::of(header.kind);
    let works = works(header.kind, groups);
    let best: Vec<Vec<(&Group, Summary)>> = works.iter().map(|work| ranked(measure, work)).filter(|ranked| !ranked.is_empty()).collect();
    if best.is_empty() {
        all.push("No measurement succeeded.".into());
    }
    for ranked in best.iter().take(MOST) {
        all.extend(order(measure, ranked));
    }
    if best.len() > MOST {
        all.push(format!("{} more workloads are omitted here; `haul bench report` lists all.", best.len() - MOST));
    }
    let wrong: Vec<&str> = groups.iter().filter(|group| is_wrong(group)).map(|group| group.name.as_str()).collect();
    if !wrong.is_empty() {
        let more = wrong.len().saturating_sub(MOST);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        all.push(format!("Not ranked, because of WRONG results: {}{more}.", wrong[..wrong.len().min(MOST)].join(", ")));
    }
    let partial = groups.iter().filter(|group| group.partial).count();
    if partial > 0 {
        all.push(format!(
            "Not ranked: {partial} of which less than {:.0} % of the files count; more files for each thread (--file-count) give a sound rate.",
            ENOUGH * 100.0
        ));
    }
    let mut said = 0;
    for (group, _) in best.iter().flatten() {
        let Some((limit, times)) = usual(&group.limits) else { continue };
        said += 1;
        if said <= MOST {
            let often = if times == group.limits.len() { String::new() } else { format!(" (in {times} of {} runs)", group.limits.len()) };
            all.push(format!("  {} was limited by {}{often}.", group.name, show(limit.as_bytes())));
        }
    }
    if said == 0 {
        all.push("No tool reported a bottleneck: only haul does, when it copies.".into());
    } else if said > MOST {
        all.push(format!("  {} others are omitted here; --json lists all.", said - MOST));
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

/// Who was best at one work, who came next, and who last.
fn order(measure: Measure, ranked: &[(&Group, Summary)]) -> Vec<String> {
    let verb = if measure == Measure::Time { "took" } else { "did" };
    let rate = |group: &Group| if measure == Measure::Time { rate(group) } else { String::new() };
    match ranked {
        [] => Vec::new(),
        [(only, summary)] => vec![format!("{} {verb} {} in the median of {}.", only.name, measure.show(summary.median), summary.count)],
        [(first, best), (second, next), ..] => {
            let shown = measure.show(best.median);
            let mut told = vec![format!("Fastest was {}: {shown} in the median of {}{}.", first.name, best.count, rate(first))];
            told.push(next_best(measure, (first, best), (second, next)));
            let (last, worst) = ranked[ranked.len() - 1];
            if ranked.len() > 2 {
                let beside = measure.beside(worst.median / best.median, 1);
                told.push(format!("Slowest was {}: {}, {beside}.", last.name, measure.show(worst.median)));
            }
            told
        }
    }
}

fn next_best(measure: Measure, (first, best): (&Group, &Summary), (second, next): (&Group, &Summary)) -> String {
    let found = difference(&measure.costs(first), &measure.costs(second));
    let shown = measure.show(next.median);
    match found.map_or(Verdict::NotSignificant, |difference| difference.verdict) {
        Verdict::NotSignificant => {
            format!("Next was {} with {shown}: too close, or measured too few times, to call one of the two faster.", second.name)
        }
        _ => format!("Next was {} with {shown}, {}.", second.name, measure.beside(next.median / best.median, 2)),
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
    let median = |values: &[f64]| Summary::of(values).map(|summary| summary.median);
    let group = |group: &Group| {
        json!({
            "contender": group.contender,
            "factors": group.factors,
            "repetitions": group.seconds.len(),
            "median_seconds": median(&group.seconds),
            "median_bytes_per_second": median(&group.bytes),
            "median_operations_per_second": median(&group.operations),
            "limited_by": usual(&group.limits).map(|(limit, _)| show(limit.as_bytes())),
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

    fn sample(contender: &str, repetition: u32, seconds: f64, limited_by: Option<&str>) -> Sample {
        let limited_by = limited_by.map(str::to_string);
        Sample { contender: contender.into(), repetition, seconds: Some(seconds), bytes: Some(30 << 20), limited_by, ..Sample::default() }
    }

    fn told(samples: &[Sample]) -> String {
        told_of(Kind::Compare, samples)
    }

    fn told_of(kind: Kind, samples: &[Sample]) -> String {
        let mut header = Header { kind, started: "2026-01-02T03:04:05Z".into(), ..Header::default() };
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
        A run of haul bench compare on node7, started 2026-01-02T03:04:05Z.
        It was interrupted or is still running: these results are partial.
        Fastest was haul: 2.03 s in the median of 5, 14.8 MiB/s.
        Next was cp with 4.03 s, 1.99 times as long.
        Not ranked, because of WRONG results: rcp.
          haul was limited by writing the destination: 80% (in 4 of 5 runs).
        1 run of rcp did not count: WRONG (2 files differ).
        ");
    }

    #[test]
    fn too_few_to_tell_and_nothing_at_all() {
        let close = told(&[sample("haul", 1, 2.0, None), sample("cp", 1, 2.1, None)]);
        assert!(close.contains("too close, or measured too few times"), "{close}");
        let none = told(&[Sample { outcome: Outcome::Missing, ..sample("cp", 1, 1.0, None) }]);
        assert!(none.contains("No measurement succeeded") && none.contains("1 run of cp did not count: missing"), "{none}");
    }

    /// It had five runs that went well and were the quickest; that one gave a wrong copy is enough.
    #[test]
    fn who_was_wrong_even_once_is_not_the_fastest() {
        let mut samples = Vec::new();
        for n in 1..=5 {
            samples.push(sample("rcp", n, 0.1, None));
            samples.push(sample("cp", n, 4.0, None));
            samples.push(sample("haul", n, 2.0, None));
        }
        samples.push(Sample { outcome: Outcome::Wrong, ..sample("rcp", 6, 0.1, None) });
        let text = told(&samples);
        assert!(text.contains("Fastest was haul") && text.contains("Not ranked, because of WRONG results: rcp."), "{text}");
        assert!(!text.contains("Next was rcp"), "{text}");
    }

    #[test]
    fn what_runs_for_a_time_is_ranked_by_what_it_did() {
        let files = |operation: &str, threads: u32, operations: u64| Sample {
            contender: operation.into(),
            factors: [("operation".to_string(), Value::from(operation)), ("threads".to_string(), threads.into())].into(),
            operations: Some(operations),
            ..sample(operation, 1, 10.0, None)
        };
        let text = told_of(Kind::Files, &[files("create", 1, 1000), files("create", 8, 40_000), files("stat", 8, 900_000)]);
        assert!(text.contains("Fastest was create (operation create, threads 8): 4,000 operations/s"), "{text}");
        assert!(text.contains("Next was create (operation create, threads 1) with 100 operations/s"), "{text}");
        assert!(text.contains("stat (operation stat, threads 8) did 90,000 operations/s"), "{text}");
        let net = |streams: u32, direction: &str, bytes: u64| Sample {
            factors: [("direction".to_string(), Value::from(direction)), ("streams".to_string(), streams.into())].into(),
            bytes: Some(bytes),
            ..sample("haul", 1, 10.0 + f64::from(streams), None)
        };
        let trip = Sample { contender: ROUND_TRIP.into(), ..sample("", 1, 0.01, None) };
        let text = told_of(Kind::Net, &[trip, net(1, "out", 100 << 20), net(4, "out", 560 << 20), net(1, "in", 11 << 20)]);
        assert!(text.contains("Fastest was haul (direction out, streams 4): 40.0 MiB/s"), "{text}");
        assert!(text.contains("haul (direction in, streams 1) did 1.00 MiB/s") && !text.contains(ROUND_TRIP), "{text}");
    }

    #[test]
    fn nothing_that_a_run_holds_steers_the_terminal() {
        let odd = "\u{1b}]0;title\u{7}";
        let mut one = sample(odd, 1, 2.0, Some(odd));
        one.factors.insert(odd.into(), odd.into());
        let header = Header { started: odd.into(), kind: Kind::Compare, ..Header::default() };
        let text = sentences(&header, &groups(&[one])).join("\n");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}') && text.contains("was limited by"), "{text:?}");
    }
}
