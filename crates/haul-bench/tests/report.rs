//! Reports of runs that nobody measured: what they say, and that nothing in them can break a page or a terminal.

use std::collections::HashSet;

use generated::{Made, factors, sample};
use haul_bench::record::{Kind, Outcome};
use haul_bench::report::{self, compare_runs};
use haul_bench::stats::Verdict;
use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::json;

mod generated;

fn page(made: &Made) -> String {
    report::html(std::slice::from_ref(made))
}

fn text(made: &Made) -> String {
    // Without its folds, so that sentences can be looked for.
    report::text(std::slice::from_ref(made), 80).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn says(text: &str, sentence: &str) {
    assert!(text.contains(sentence), "no '{sentence}' in:\n{text}");
}

/// Names of the elements with their attributes; panics where the document is not well-formed XML.
fn elements(page: &str) -> Vec<(String, String)> {
    assert!(!page.contains(|c: char| c.is_control() && c != '\n'), "control characters");
    let mut reader = Reader::from_str(page);
    let mut found = Vec::new();
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Start(tag) | Event::Empty(tag) => {
                tag.attributes().for_each(|attribute| drop(attribute.expect("an attribute")));
                let words: &str = &tag;
                let (name, attributes) = words.split_once(' ').unwrap_or((words, ""));
                found.push((name.to_string(), attributes.trim_end_matches('/').to_string()));
            }
            Event::GeneralRef(entity) => assert!(["amp", "lt", "gt", "quot", "#39"].contains(&&*entity), "{entity:?}"),
            Event::Eof => return found,
            _ => {}
        }
    }
}

#[test]
fn pages_are_whole_and_need_nothing() {
    let mut pages: Vec<(String, String)> = generated::all().iter().map(|(name, made)| (name.clone(), page(made))).collect();
    let several: Vec<Made> = generated::all().into_iter().map(|(_, made)| made).collect();
    pages.push(("all".into(), report::html(&several)));
    pages.push(("none".into(), report::html(&[])));
    for (name, page) in &pages {
        let elements = elements(page);
        let allowed: HashSet<&str> = "html head meta link title style body main article header section div h1 h2 h3 p ul ol li a br \
                                      figure figcaption span table caption thead tbody tr th td svg desc g path text \
                                      circle"
            .split_whitespace()
            .collect();
        for (element, attributes) in &elements {
            assert!(allowed.contains(element.as_str()), "{name}: <{element} {attributes}>");
            let handles = attributes.split_whitespace().any(|attribute| attribute.starts_with("on") && attribute.contains('='));
            assert!(!attributes.contains("style=") && !handles, "{name}: <{element} {attributes}>");
            for from in ["src=", "href=\"h", "url("] {
                assert!(!attributes.contains(from), "{name}: <{element} {attributes}>");
            }
        }
        assert!(!page.contains("@import") && !page.contains("url("), "{name}");
        assert!(page.contains("default-src 'none'; style-src 'sha256-"), "{name}");
        let ids: Vec<&str> = elements.iter().filter_map(|(_, a)| a.split_once("id=\"")?.1.split('"').next()).collect();
        assert_eq!(ids.len(), ids.iter().collect::<HashSet<_>>().len(), "{name}: an id twice");
        let count = |of: &str| elements.iter().filter(|(element, _)| element == of).count();
        assert_eq!(count("figure"), count("figcaption"), "{name}");
        assert_eq!(page.matches("role=\"img\"").count(), count("figure"), "{name}");
        assert_eq!(page.matches("<desc id=").count(), count("figure"), "{name}");
        for number in ["NaN", "inf\"", "=\"-inf"] {
            assert!(!page.contains(number), "{name}: {number}");
        }
    }
}

#[test]
fn texts_fit_and_cannot_steer_a_terminal() {
    for (name, made) in generated::all() {
        let one = std::slice::from_ref(&made);
        for width in [40, 80, 200] {
            let text = report::text(one, width);
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{name}, {width} columns: {line}");
                assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'), "{name}: {line:?}");
                assert_eq!(line.trim_end(), line, "{name}: {line:?}");
            }
        }
        assert!(report::ascii(&report::text(one, 80)).is_ascii(), "{name}");
        serde_json::to_string(&report::summaries(one)).unwrap();
    }
    report::text(&[], 80);
}

#[test]
fn a_comparison_says_who_was_fastest_and_who_failed() {
    let text = text(&generated::compare());
    says(&text, "haul took the least time: 5.09 s. rclone took 1.58 times as long (1.52 to 1.67 times).");
    says(&text, "! tar over ssh wrote copies that are WRONG 1 of 7 times: file 7: the content differs");
    says(&text, "! scp failed 6 of 7 times: client_loop: send disconnect: Broken pipe.");
    says(&text, "! scp did not end in time 1 of 7 times: not done after 600 s, and killed.");
    says(&text, "! s5cmd is not on this machine.");
    says(&text, "Not ranked, because of WRONG results: tar over ssh.");
    says(&text, "Note: The link was emulated");
    let page = page(&generated::compare());
    says(&page, "rw,relatime,attr2,inode64,logbufs=8,logbsize=32k,noquota");
    says(&page, "Linux 6.1.0-28-amd64");
    says(&page, "Time for 13TB");
    says(&page, "assumes constant throughput");
    says(&page, "The link was emulated");
    says(&page, "WRONG 1 of 7");
    says(&page, "not ranked");
}

/// One wrong copy, in a run or in a warm-up, is enough to be ranked nowhere, however quick the others were.
#[test]
fn who_was_wrong_even_once_wins_nothing() {
    let (header, mut samples) = generated::compare();
    for sample in samples.iter_mut().filter(|s| s.contender == "tar over ssh") {
        sample.seconds = sample.seconds.map(|seconds| seconds / 1000.0);
        sample.outcome = if sample.repetition == 0 { Outcome::Wrong } else { Outcome::Ok };
    }
    let text = text(&(header, samples));
    says(&text, "haul took the least time: 5.09 s.");
    says(&text, "Not ranked, because of WRONG results: tar over ssh.");
}

#[test]
fn few_repetitions_show_nothing() {
    let text_of_many = text(&generated::compare_many());
    says(&text_of_many, "but the difference to tool 1 -j 2");
    says(&text_of_many, "Fewer than 4 repetitions of each cannot show a difference.");
    says(&page(&generated::compare_many()), "(75 %)");
    let one = text(&generated::compare_one());
    says(&one, "haul took the least time: 12.3 s. There is nothing to compare it with.");
    says(&page(&generated::compare_one()), "one value");
    says(&text(&generated::empty(Kind::Net)), "Nothing has been measured in this run yet.");
}

#[test]
fn directions_have_each_their_best_number_of_streams() {
    let text = text(&generated::net());
    says(&text, "Out (from here): 6 streams are best (47.1 MiB/s, 0.395 Gbit/s), 4.85 times 1 stream; 16 streams: 24 % less.");
    says(&text, "In (to here): 6 streams are best (26.0 MiB/s, 0.218 Gbit/s), 1.42 times 1 stream; 16 streams: 60 % less.");
}

#[test]
fn directories_of_their_own_make_the_difference() {
    let text = text(&generated::files());
    says(&text, "Create, files of 4 KiB: 2,002 operations/s at best, with 32 threads, own directories.");
    says(&text, "With 32 threads own directories are 10.6 times as fast as one shared directory.");
    let page = page(&generated::files());
    says(&page, "Own directories: 32 threads are best (2,002 operations/s), 22.7 times 1 thread.");
}

/// As 2 processors really show 8 threads: the first ends before the others have begun.
fn cut_off(share: f64, timed: bool) -> generated::Made {
    let mut samples = Vec::new();
    for (threads, rate) in [(1u64, 200_000.0), (8, 800_000.0)] {
        let whole = 300 * threads;
        let share = if threads == 1 { 1.0 } else { share };
        let counted = (whole as f64 * share) as u64;
        let point = factors(json!({"operation": "read", "threads": threads, "file_size": 4096, "file_count": 300, "same_dir": "N"}));
        let mut one = sample("read", point, 1, counted as f64 / rate, counted, counted * 4096);
        one.operations = Some(counted);
        let more = json!({
            "share": share,
            "asked_files": whole,
            "whole_files": if timed { counted } else { whole },
            "whole_seconds": 0.5,
            "limited_by_duration": timed && threads > 1
        });
        one.more = serde_json::from_value(more).unwrap();
        samples.push(one);
    }
    (generated::header(Kind::Files), samples)
}

#[test]
fn what_was_cut_off_is_no_headline_and_unequal_work_has_no_durations() {
    let made = cut_off(0.49, false);
    let (words, shown) = (text(&made), page(&made));
    says(&words, "Read, files of 4 KiB: 200,000 operations/s at best, with 1 thread, own directories.");
    says(
        &words,
        "Less than 90 % of the files count, because the threads did not keep pace with each other: 8 threads, own directories (49 %)",
    );
    says(&shown, "Durations are not drawn: the points did different work, from 300 to 2,400 files.");
    assert!(!shown.contains("Duration: Read") && !shown.contains("8 threads are best"), "{shown}");
    // Nothing else is there to speak of.
    let (header, samples) = cut_off(0.49, false);
    let only = (header, samples.into_iter().skip(1).collect());
    says(&text(&only), "Read, files of 4 KiB: no sound rate, as less than 90 % of the files count.");
    // All threads were at work until the time was over: that is a rate.
    let timed = text(&cut_off(0.49, true));
    says(&timed, "Read, files of 4 KiB: 800,000 operations/s at best, with 8 threads, own directories.");
    says(&page(&cut_off(0.49, true)), "Durations are not drawn: some operations ended with their time");
    let mut equal = cut_off(1.0, false);
    for sample in &mut equal.1 {
        sample.more.insert("whole_files".into(), json!(2400));
    }
    says(&page(&equal), "Duration: Read");
}

/// As `bench net` keeps them: the round trip is asked by itself, and carries nothing.
#[test]
fn a_round_trip_is_no_rate_that_failed() {
    let (header, samples) = generated::net();
    let own = samples.into_iter().filter(|s| s.outcome == Outcome::Ok);
    let latency =
        haul_bench::record::Latency { count: 21, p50: 0.0302, p90: 0.031, p99: 0.04, p999: 0.04, max: 0.04, classes: vec![(0.05, 21)] };
    let asked = haul_bench::record::Sample {
        contender: haul_bench::net::ROUND_TRIP.into(),
        repetition: 1,
        seconds: Some(0.7),
        latency: Some(latency),
        ..Default::default()
    };
    let made = (header, std::iter::once(asked).chain(own).collect::<Vec<_>>());
    let words = text(&made);
    says(&words, "Out (from here): 6 streams are best (47.1 MiB/s, 0.395 Gbit/s)");
    says(&words, "A round trip takes 30.2 ms.");
    let page = page(&made);
    assert!(!page.contains("failed") && page.contains("Gbit/s</th>"), "{words}");
}

#[test]
fn runs_are_set_beside_each_other() {
    let (before, after) = (generated::compare(), generated::compare_later());
    let changes = compare_runs(&before, &after);
    for change in &changes {
        let verdict = change.difference.ok().map(|found| found.verdict);
        match change.contender.as_str() {
            "rsync" => assert_eq!(verdict, Some(Verdict::Slower), "{change:?}"),
            "scp" => assert_eq!(change.words(), "only in the first run"),
            "s5cmd" => assert_eq!(change.words(), "failed in both runs"),
            _ => assert_eq!(verdict, Some(Verdict::NotSignificant), "{change:?}"),
        }
    }
    let back = compare_runs(&after, &before);
    assert!(back.iter().filter(|c| c.contender == "rsync").all(|c| c.words() == "faster"));
    assert!(back.iter().filter(|c| c.contender == "scp").all(|c| c.words() == "only in the second run"));
    assert!(compare_runs(&before, &generated::net()).is_empty());

    let text = report::text(&[before.clone(), after, generated::net()], 80).split_whitespace().collect::<Vec<_>>().join(" ");
    says(&text, "Of 5 points Run 2 is slower at 1: rsync; not significant at 4. 2 cannot be compared: see the table.");
    says(&text, "kernel: Linux 6.1.0-28-amd64 before, Linux 6.12.1-amd64 now");
    says(&text, "there is nothing to compare");

    // Less work in the same time is not faster.
    let mut less = before.clone();
    for sample in &mut less.1 {
        sample.bytes = sample.bytes.map(|bytes| bytes / 2);
        sample.seconds = sample.seconds.map(|seconds| seconds / 2.0);
    }
    let changes = compare_runs(&before, &less);
    assert!(changes.iter().filter(|c| c.contender == "cp").all(|c| c.words() == "different amounts of work"), "{changes:?}");
}
