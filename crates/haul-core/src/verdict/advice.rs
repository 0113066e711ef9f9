//! What to try next, for each limit.

use super::{Choice, End, Facts, Limiter, Stage};

/// The most promising first; never empty.
pub(super) fn next(limiter: Limiter, facts: &Facts<'_>) -> Vec<String> {
    let source = &facts.ends.source;
    let destination = &facts.ends.destination;
    match limiter {
        Limiter::DryRun => vec![format!("run it without {} to measure it", facts.name(Choice::DryRun))],
        Limiter::TooShort => vec!["nothing: only longer runs can be analyzed".into()],
        Limiter::Limit => vec![format!("raise or remove {}: the run reached it", facts.name(Choice::Limit))],
        Limiter::Workers => vec![
            format!("run it without {}: haul then tunes the number of workers", facts.name(Choice::Workers)),
            format!("use {} {}: twice as many workers", facts.name(Choice::Workers), facts.workers() * 2),
        ],
        Limiter::Processors => processors(facts),
        Limiter::RemoteProcessors => {
            let mut next = vec![format!("nothing on this machine: the CPU of {} is the limit", facts.hosts())];
            next.push("use another host on the same file system, if there is one".into());
            next
        }
        Limiter::Hashing => hashing(facts),
        Limiter::Network | Limiter::NetworkOrSource | Limiter::NetworkOrDestination => network(facts),
        Limiter::Requests => vec![
            "use fewer, larger files: an archive costs one request".into(),
            match facts.machine.workers_fixed {
                true => format!("run it without {}: haul then tunes the number of concurrent requests", facts.name(Choice::Workers)),
                false => workers(facts),
            },
        ],
        Limiter::SourceReads => {
            vec![format!("nothing in haul: {} delivers no more; {}", said(source), alone(source, "read")), workers(facts)]
        }
        Limiter::SourceMetadata => vec![
            format!("nothing in haul: {} is slow to list and open; {}", said(source), alone(source, "stat")),
            "split huge directories: haul lists several directories in parallel, but not a single one".into(),
        ],
        Limiter::DestinationWrites => {
            vec![format!("nothing in haul: {} accepts no more; {}", said(destination), alone(destination, "create")), workers(facts)]
        }
        Limiter::DestinationMetadata if !facts.changed() => {
            vec![format!("nothing in haul: every name must be looked up there; {}", alone(destination, "stat"))]
        }
        Limiter::DestinationMetadata => vec![
            format!(
                "spread files over more directories: creates in one directory often wait for each other; {}",
                alone(destination, "create")
            ),
            "use fewer, larger files: an archive costs one create".into(),
            workers(facts),
        ],
        Limiter::Copying => vec!["nothing in haul: no copy is faster than the system's own".into(), workers(facts)],
        Limiter::Verifying => vec![
            format!("omit {} or {}: verification reads the destination again", facts.name(Choice::Verify), facts.name(Choice::Content)),
            format!("the destination is slow to read: {}", alone(destination, "read")),
        ],
        Limiter::OneFile => one_file(facts),
        Limiter::Straggler => straggler(facts),
        Limiter::FewFiles => vec![
            "nothing, as long as there are fewer files than workers and the destination accepts one writer per file".into(),
            "copy several sources in one command: haul copies them in parallel".into(),
        ],
        Limiter::Imbalance => vec![
            "split the directory or file that one rank is left with: one rank lists a directory and commits a file".into(),
            "use fewer ranks: the others had nothing to do".into(),
        ],
        Limiter::SlowNode => vec![
            "leave that node out, and compare: for srun and sbatch, `--exclude NODE`".into(),
            format!("run there and on another node: {}", alone(destination, "create")),
        ],
        Limiter::Saturated => vec![
            "use fewer ranks: the file system does no more for them all".into(),
            "ask for the file system's limits: other jobs may be using it at the same time".into(),
        ],
    }
}

fn said(end: &End) -> String {
    if end.words.is_empty() { "it".into() } else { end.words.clone() }
}

/// How that end is measured alone.
fn alone(end: &End, operation: &str) -> String {
    match &end.remote {
        Some(remote) if remote.ssh => format!("`haul bench files --operation {operation}`, run on {}, measures it directly", remote.host),
        Some(_) => format!("`haul bench files --operation {operation} {}` measures it directly", said(end)),
        None => format!("`haul bench files --operation {operation} DIR` measures that file system directly"),
    }
}

fn workers(_: &Facts<'_>) -> String {
    "`haul bench compare --tools haul -j 1,4,16 SRC DST` compares numbers of workers".into()
}

fn processors(facts: &Facts<'_>) -> Vec<String> {
    let mut next = Vec::new();
    if facts.cores < 0.7 * f64::from(facts.machine.processors) {
        next.push("run it when this machine is less busy: other programs used its CPU".into());
    }
    if facts.share_of(Stage::Hashing) > 0.2 || facts.share_of(Stage::Verifying) > 0.2 {
        let (verify, content) = (facts.name(Choice::Verify), facts.name(Choice::Content));
        next.push(format!("omit {verify} or {content}, if possible: hashing takes CPU time"));
    }
    next.push(format!("omit {}, if it was given: compression takes CPU time", facts.name(Choice::Compress)));
    next.push("use a machine or a job allocation with more cores".into());
    next
}

fn hashing(facts: &Facts<'_>) -> Vec<String> {
    let (verify, content) = (facts.name(Choice::Verify), facts.name(Choice::Content));
    let mut next = vec![format!("omit {content}: files of equal size and time are not read; omit {verify}: nothing is read twice")];
    if facts.share_of(Stage::Hashing) < 0.99 {
        next.push(format!("use {}: changed files are copied whole, without searching for the changes", facts.name(Choice::Whole)));
    }
    next.push("use a machine or a job allocation with more cores".into());
    next
}

fn network(facts: &Facts<'_>) -> Vec<String> {
    let remote = [&facts.ends.source, &facts.ends.destination].into_iter().find_map(|end| end.remote.as_ref());
    let mut next = Vec::new();
    if facts.machine.workers_fixed {
        next.push(format!("run it without {}: haul then finds the number of workers that fills the link", facts.name(Choice::Workers)));
    }
    match remote {
        Some(remote) if remote.ssh => {
            next.push(format!("nothing: this is the network's throughput; `haul bench net {}` measures it directly", remote.host));
            next.push(format!("use {} if the data is compressible: fewer bytes cross the network", facts.name(Choice::Compress)));
            if facts.remote_work(Stage::SourceReads).or(facts.report.remote_destination).is_none() {
                next.push(format!("`haul doctor {}` shows whether haul can run there, which saves round trips", remote.host));
            }
        }
        _ => next.push("nothing: this is the throughput to the service".into()),
    }
    next.push(workers(facts));
    next
}

fn one_file(facts: &Facts<'_>) -> Vec<String> {
    let mut next = Vec::new();
    if facts.machine.workers_fixed && facts.workers() == 1 {
        next.push(format!(
            "run it without {}: several workers share a file where the destination accepts parallel writes",
            facts.name(Choice::Workers)
        ));
    }
    match facts.ends.destination.remote {
        Some(_) => next.push(format!(
            "reduce {}: more workers share the file where the destination accepts parallel writes",
            facts.name(Choice::ChunkSize)
        )),
        None => next.push("nothing: local file systems write a single file fastest with one writer".into()),
    }
    next.push("copy several files in one run, if there are more".into());
    next
}

fn straggler(facts: &Facts<'_>) -> Vec<String> {
    let mut next = Vec::new();
    if facts.ends.destination.remote.is_some() {
        next.push(format!(
            "reduce {}: more workers share the last file where the destination accepts parallel writes",
            facts.name(Choice::ChunkSize)
        ));
    }
    next.push("copy the largest file first: name it before the others in the same command".into());
    next.push("nothing else: one worker copies this file at full speed".into());
    next
}
