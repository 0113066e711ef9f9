//! What to try next, for each limit.

use super::{Choice, End, Facts, Limiter, Stage};

/// The most promising first; never empty.
pub(super) fn next(limiter: Limiter, facts: &Facts<'_>) -> Vec<String> {
    let source = &facts.ends.source;
    let destination = &facts.ends.destination;
    match limiter {
        Limiter::DryRun => vec![format!("run it without {}: only then there is something to measure", facts.name(Choice::DryRun))],
        Limiter::TooShort => vec!["nothing: a run of more than a few tenths of a second says more".into()],
        Limiter::Limit => vec![format!("a higher {}, or none: the run was as fast as it was allowed to be", facts.name(Choice::Limit))],
        Limiter::Workers => vec![
            format!("run it without {}: haul then finds out how many workers gain something", facts.name(Choice::Workers)),
            format!("{} {}, to see whether twice as many are faster", facts.name(Choice::Workers), facts.workers() * 2),
        ],
        Limiter::Processors => processors(facts),
        Limiter::FarProcessors => {
            let mut next = vec![format!("nothing here: the processors of {} are busy", facts.hosts())];
            next.push("where there are more hosts on that file system, another one of them".into());
            next
        }
        Limiter::Hashing => hashing(facts),
        Limiter::Network | Limiter::NetworkOrSource | Limiter::NetworkOrDestination => network(facts),
        Limiter::Requests => vec![
            "fewer and larger files: an archive of them costs one request".into(),
            match facts.machine.workers_fixed {
                true => format!(
                    "run it without {}: haul then finds out how many requests at a time gain something",
                    facts.name(Choice::Workers)
                ),
                false => sweep(facts),
            },
        ],
        Limiter::SourceReads => {
            vec![format!("nothing in haul: {} gives no more; {}", said(source), alone(source, "read")), sweep(facts)]
        }
        Limiter::SourceMetadata => vec![
            format!("nothing in haul: {} is slow to list and open; {}", said(source), alone(source, "stat")),
            "if it is one huge directory, spread it over several: directories are listed in parallel, one is not".into(),
        ],
        Limiter::DestinationWrites => {
            vec![format!("nothing in haul: {} takes no more; {}", said(destination), alone(destination, "create")), sweep(facts)]
        }
        Limiter::DestinationMetadata if !facts.changed() => {
            vec![format!("nothing in haul: every name has to be looked up there; {}", alone(destination, "stat"))]
        }
        Limiter::DestinationMetadata => vec![
            format!(
                "files spread over more directories: creates in one directory often wait for each other; {}",
                alone(destination, "create")
            ),
            "fewer and larger files: an archive of them costs one create".into(),
            sweep(facts),
        ],
        Limiter::Copying => vec!["nothing in haul: the system copies by itself, and nothing is faster".into(), sweep(facts)],
        Limiter::Verifying => vec![
            format!(
                "without {} (or {}), the destination is not read again: it is the price of the proof",
                facts.name(Choice::Verify),
                facts.name(Choice::Content)
            ),
            format!("reading there is slow: {}", alone(destination, "read")),
        ],
        Limiter::OneFile => one_file(facts),
        Limiter::Straggler => straggler(facts),
        Limiter::FewFiles => vec![
            "nothing, as long as there are fewer files than workers and the destination takes each from one worker only".into(),
            "more in one run: several sources in one command are moved side by side".into(),
        ],
    }
}

fn said(end: &End) -> String {
    if end.words.is_empty() { "it".into() } else { end.words.clone() }
}

/// How that end is measured alone.
fn alone(end: &End, operation: &str) -> String {
    match &end.far {
        Some(far) if far.ssh => format!("`haul bench files --operation {operation}`, run on {}, measures it alone", far.host),
        Some(_) => format!("`haul bench files --operation {operation} {}` measures it alone", said(end)),
        None => format!("`haul bench files --operation {operation} DIR` measures a directory there alone"),
    }
}

fn sweep(_: &Facts<'_>) -> String {
    "`haul bench sweep SRC DST` tries other numbers of workers and sizes of chunks and says which gain".into()
}

fn processors(facts: &Facts<'_>) -> Vec<String> {
    let mut next = Vec::new();
    if facts.cores < 0.7 * f64::from(facts.machine.processors) {
        next.push("when less else runs on this machine: other programs had its processors".into());
    }
    if facts.share_of(Stage::Hashing) > 0.2 || facts.share_of(Stage::Verifying) > 0.2 {
        let (verify, content) = (facts.name(Choice::Verify), facts.name(Choice::Content));
        next.push(format!("without {verify} or {content}, if the proof is not needed: hashing takes processor time"));
    }
    next.push(format!("without {}, if it was given: compressing takes processor time", facts.name(Choice::Compress)));
    next.push("a machine, or a job allocation, with more processors".into());
    next
}

fn hashing(facts: &Facts<'_>) -> Vec<String> {
    let (verify, content) = (facts.name(Choice::Verify), facts.name(Choice::Content));
    let mut next = vec![format!("without {content}, files of equal size and time are not read; without {verify} nothing is read twice")];
    if facts.share_of(Stage::Hashing) < 0.99 {
        next.push(format!("{} moves changed files whole, without looking for what has changed in them", facts.name(Choice::Whole)));
    }
    next.push("a machine, or a job allocation, with more processors".into());
    next
}

fn network(facts: &Facts<'_>) -> Vec<String> {
    let far = [&facts.ends.source, &facts.ends.destination].into_iter().find_map(|end| end.far.as_ref());
    let mut next = Vec::new();
    if facts.machine.workers_fixed {
        next.push(format!("run it without {}: haul then finds out how many workers fill the link", facts.name(Choice::Workers)));
    }
    match far {
        Some(far) if far.ssh => {
            next.push(format!("nothing: this is what the link gives; `haul bench net {}` measures it alone", far.host));
            next.push(format!("{}, if the data can be compressed: fewer bytes go over the link", facts.name(Choice::Compress)));
            if facts.far_work(Stage::SourceReads).or(facts.report.far_destination).is_none() {
                next.push(format!("`haul doctor {}` says whether haul can run there, which needs fewer round trips", far.host));
            }
        }
        _ => next.push("nothing: this is what the way to the service gives".into()),
    }
    next.push(sweep(facts));
    next
}

fn one_file(facts: &Facts<'_>) -> Vec<String> {
    let mut next = Vec::new();
    if facts.machine.workers_fixed && facts.workers() == 1 {
        next.push(format!(
            "run it without {}: where the destination takes parts of a file, several workers move them",
            facts.name(Choice::Workers)
        ));
    }
    match facts.ends.destination.far {
        Some(_) => next.push(format!(
            "a smaller {}: more workers may share the file, where the destination takes parts of it",
            facts.name(Choice::ChunkSize)
        )),
        None => next.push("nothing: a file system of this machine takes one file from one writer fastest".into()),
    }
    next.push("several files at a time in one run, if there are more to come".into());
    next
}

fn straggler(facts: &Facts<'_>) -> Vec<String> {
    let mut next = Vec::new();
    if facts.ends.destination.far.is_some() {
        next.push(format!(
            "a smaller {}: more workers may share the last file, where the destination takes parts of it",
            facts.name(Choice::ChunkSize)
        ));
    }
    next.push("copy the largest file first, in the same command: name it before the rest".into());
    next.push("nothing else: it is moved by one worker, as fast as one worker goes".into());
    next
}
