//! Numbers of runs, and what they must be taken for.

use super::*;
use crate::pace::Pace;
use crate::report::Times;

const MACHINE: Machine = Machine { processors: 4, workers_fixed: false, limit: None, names };

fn names(choice: Choice) -> &'static str {
    match choice {
        Choice::Limit => "LIMIT",
        Choice::Workers => "WORKERS",
        other => other.word(),
    }
}

fn secs(n: f64) -> Duration {
    Duration::from_secs_f64(n)
}

/// Ten seconds, eight workers, and a bit of everything.
fn ran(change: impl FnOnce(&mut Report)) -> Report {
    let mut r = Report { elapsed: secs(10.0), workers_end: 8, workers_peak: 8, ..Report::default() };
    r.made.files = 10;
    r.times.walking = secs(2.0);
    r.times.source_listing = secs(1.5);
    r.times.target_listing = secs(0.2);
    r.times.reading = secs(1.0);
    r.times.writing = secs(1.0);
    r.times.cpu = secs(4.0);
    change(&mut r);
    r
}

fn place(scheme: &'static str, endpoint: &str) -> Place {
    let form = match scheme {
        "local" => AddressForm::Path,
        "ssh" => AddressForm::Host,
        "s3" => AddressForm::Service,
        _ => AddressForm::Url,
    };
    Place { scheme, form, endpoint: endpoint.into(), volume: "bucket".into(), root: b"/a b\n".to_vec(), ..Place::default() }
}

fn near() -> Ends {
    Ends::of(&place("local", ""), &place("local", ""))
}

fn to_host() -> Ends {
    Ends::of(&place("local", ""), &place("ssh", "ana@cluster"))
}

fn from_host() -> Ends {
    Ends::of(&place("ssh", "cluster:2222"), &place("local", ""))
}

#[track_caller]
fn is(report: &Report, machine: Machine, ends: &Ends, limiter: Limiter, words: &str) {
    let verdict = verdict(report, machine, ends);
    assert_eq!(verdict.limiter, limiter, "{verdict:?}");
    assert!(verdict.sentence.contains(words), "{verdict:?}");
    assert!(!verdict.next.is_empty() && verdict.next.iter().all(|next| !next.is_empty()), "{verdict:?}");
}

type Case = (fn(&mut Report), Limiter, &'static str);

/// A check, or a sync that found all the same.
#[test]
fn what_only_looked_created_nothing() {
    let looked = |change: fn(&mut Report)| {
        ran(|r| {
            (r.times.walking, r.times.target_listing, r.made.files, r.kept.files) = (secs(60.0), secs(58.0), 0, 20_000);
            change(r);
        })
    };
    let report = looked(|_| ());
    is(&report, MACHINE, &near(), Limiter::DestinationMetadata, "listing and looking up names at the destination: 9");
    let advice = verdict(&report, MACHINE, &near()).next;
    assert!(advice.iter().all(|next| !next.contains("create")), "{advice:?}");
    for change in [|r: &mut Report| r.attributes = 1, |r: &mut Report| r.deleted.files = 1, |r: &mut Report| r.hard_links = 1] {
        is(&looked(change), MACHINE, &near(), Limiter::DestinationMetadata, "metadata operations at the destination");
    }
}

#[test]
fn the_largest_share_is_named() {
    let cases: [Case; 8] = [
        (
            |r| r.times.reading = secs(60.0),
            Limiter::SourceReads,
            "reading the source: 95% of the workers' time, with 8 workers and 0.4 of 4",
        ),
        (|r| r.times.writing = secs(60.0), Limiter::DestinationWrites, "writing the destination: 95%"),
        (|r| r.times.metadata = secs(60.0), Limiter::DestinationMetadata, "metadata operations at the destination"),
        (|r| r.times.opening = secs(60.0), Limiter::SourceMetadata, "metadata operations at the source"),
        (
            |r| (r.times.walking, r.times.source_listing) = (secs(60.0), secs(59.0)),
            Limiter::SourceMetadata,
            "metadata operations at the source: 95%",
        ),
        (
            |r| (r.times.walking, r.times.target_listing) = (secs(60.0), secs(58.0)),
            Limiter::DestinationMetadata,
            "metadata operations at the destination",
        ),
        (|r| r.times.verifying = secs(60.0), Limiter::Verifying, "reading the destination for comparison"),
        (|r| r.times.hashing = secs(20.0), Limiter::Hashing, "hashing"),
    ];
    for (change, limiter, words) in cases {
        is(&ran(change), MACHINE, &near(), limiter, words);
    }
    is(&ran(|r| r.times.copying = secs(60.0)), MACHINE, &near(), Limiter::Copying, "in-kernel copy");
}

#[test]
fn processors_are_named_before_what_they_did() {
    is(&ran(|r| r.times.cpu = secs(39.0)), MACHINE, &near(), Limiter::Processors, "(3.9 of 4 cores used by haul), mostly");
    let hashing = ran(|r| (r.times.cpu, r.times.hashing) = (secs(39.0), secs(30.0)));
    is(&hashing, MACHINE, &near(), Limiter::Hashing, "CPU of this machine (3.9 of 4 cores used by haul), mostly hashing");
    // Others had them.
    let waited = ran(|r| (r.times.cpu, r.times.queued) = (secs(15.0), secs(21.0)));
    is(&waited, MACHINE, &near(), Limiter::Processors, "(1.5 of 4 cores used by haul, 21.0 s waiting for CPU)");
    let remote = RemoteWork { cpu: secs(19.0), processors: 2, ..RemoteWork::default() };
    let remote = ran(|r| (r.remote_destination, r.times.writing) = (Some(remote), secs(60.0)));
    is(&remote, MACHINE, &to_host(), Limiter::RemoteProcessors, "CPU of ana@cluster (1.9 of 2 cores used by haul)");
}

#[test]
fn over_a_network_nobody_is_blamed_without_proof() {
    let wrote = ran(|r| r.times.writing = secs(60.0));
    is(&wrote, MACHINE, &to_host(), Limiter::NetworkOrDestination, "the network or ana@cluster:/a b\\n: 95% of the workers' time");
    is(&wrote, MACHINE, &from_host(), Limiter::DestinationWrites, "writing the destination: 95%");
    let read = ran(|r| r.times.reading = secs(60.0));
    is(&read, MACHINE, &from_host(), Limiter::NetworkOrSource, "the network or ssh://cluster:2222/a b\\n: 95%");
}

/// A request to an object store carries content: one of some MiB is no metadata, and one of some bytes costs its answer.
#[test]
fn requests_that_carry_content_are_named_by_what_they_carry() {
    let service = || place("s3", "127.0.0.1:9000");
    let (to, from) = (Ends::of(&place("local", ""), &service()), Ends::of(&service(), &place("local", "")));
    let wrote =
        |mean: u64| ran(|r| (r.times.writing, r.times.metadata, r.made.files, r.file_bytes) = (secs(60.0), secs(1.0), 5000, 5000 * mean));
    let read = |mean: u64| ran(|r| (r.times.reading, r.made.files, r.file_bytes) = (secs(60.0), 5000, 5000 * mean));
    for mean in [1 << 20, 4 << 20] {
        is(&wrote(mean), MACHINE, &to, Limiter::NetworkOrDestination, "the network or s3://bucket/");
        is(&read(mean), MACHINE, &from, Limiter::NetworkOrSource, "the network or s3://bucket/");
    }
    let words = "request latency of s3://bucket/a b\\n, one request per file (1.0 KiB on average): 9";
    is(&wrote(1 << 10), MACHINE, &to, Limiter::Requests, words);
    is(&read(1 << 10), MACHINE, &from, Limiter::Requests, words);
    // A host of ours takes many files by one request.
    is(&wrote(1 << 10), MACHINE, &to_host(), Limiter::NetworkOrDestination, "the network or ana@cluster");
}

#[test]
fn the_far_side_says_how_much_of_it_was_its_own() {
    let work = |writing: f64| {
        let remote = RemoteWork { writing: secs(writing), processors: 8, round_trip: Some(secs(0.02)), ..RemoteWork::default() };
        ran(|r| (r.remote_destination, r.times.writing) = (Some(remote), secs(60.0)))
    };
    is(&work(2.0), MACHINE, &to_host(), Limiter::Network, "the network to ana@cluster: 92% of the workers' time");
    is(&work(2.0), MACHINE, &to_host(), Limiter::Network, "cores busy, round trip 20.0 ms");
    is(&work(50.0), MACHINE, &to_host(), Limiter::DestinationWrites, "writing the destination ana@cluster:/a b\\n: 79%");
    // Several threads there for one worker here.
    is(&work(300.0), MACHINE, &to_host(), Limiter::DestinationWrites, "destination ana@cluster");
    let bundles = ran(|r| (r.times.network, r.times.metadata) = (secs(40.0), secs(3.0)));
    is(&bundles, MACHINE, &to_host(), Limiter::Network, "the network to ana@cluster");
    let next = verdict(&bundles, MACHINE, &to_host()).next;
    assert_eq!(next[0], "nothing: this is the network's throughput; `haul bench net ana@cluster` measures it directly");
    let listed = RemoteWork { metadata: secs(3.0), processors: 8, ..RemoteWork::default() };
    let listed = ran(|r| (r.remote_source, r.times.source_listing, r.times.walking) = (Some(listed), secs(60.0), secs(61.0)));
    is(&listed, MACHINE, &from_host(), Limiter::Network, "the network to cluster:2222");
}

/// Two cores, busy with other things; sources, destinations and links made slow by a known amount.
#[test]
fn runs_as_they_were() {
    let two = Machine { processors: 2, ..MACHINE };
    let ran = |elapsed: f64, workers: u32, cpu: f64, queued: f64, times: Times| {
        let times = Times { cpu: secs(elapsed * cpu), queued: secs(queued), ..times };
        let mut r = Report { elapsed: secs(elapsed), workers_end: workers, workers_peak: workers, times, ..Report::default() };
        r.made.files = 12;
        r
    };
    // 12 files of 300 KB to a host whose disk takes 400 ms for every write.
    let mut disk = ran(1.229, 13, 0.033, 0.049, Times { writing: secs(11.998), metadata: secs(0.387), ..Times::default() });
    let (writing, metadata, cpu) = (secs(14.498), secs(0.162), secs(0.02));
    disk.remote_destination = Some(RemoteWork { writing, metadata, cpu, processors: 2, ..RemoteWork::default() });
    is(&disk, two, &to_host(), Limiter::DestinationWrites, "writing the destination ana@cluster:/a b\\n: 97%");
    // The same over 2 MiB/s.
    let mut link = ran(1.916, 12, 0.025, 0.279, Times { writing: secs(17.0), metadata: secs(0.742), ..Times::default() });
    let (writing, metadata, cpu) = (secs(0.007), secs(0.008), secs(0.026));
    link.remote_destination = Some(RemoteWork { writing, metadata, cpu, processors: 2, ..RemoteWork::default() });
    is(&link, two, &to_host(), Limiter::Network, "the network to ana@cluster: 100%");
    // A local destination of 200 ms a write, -j 1, a load of 36: most of the wait for processors is when others wrote.
    let one = ran(13.34, 1, 0.004, 4.379, Times { writing: secs(9.424), metadata: secs(3.582), ..Times::default() });
    is(&one, Machine { workers_fixed: true, ..two }, &near(), Limiter::Workers, "WORKERS: 1 worker");
    // A source of 150 ms a read.
    let times = Times { reading: secs(8.351), opening: secs(0.32), writing: secs(0.092), metadata: secs(0.064), ..Times::default() };
    is(&ran(0.961, 24, 0.085, 0.353, times), two, &near(), Limiter::SourceReads, "reading the source: 95%");
    // A destination of 25 ms for everything but data.
    let times = Times { metadata: secs(9.23), writing: secs(0.025), ..Times::default() };
    is(&ran(1.577, 6, 0.041, 0.116, times), two, &near(), Limiter::DestinationMetadata, "at the destination: 100%");
}

#[test]
fn too_little_work_is_no_fault_of_a_store() {
    let alone = |alone: f64, since: f64| {
        let file = Alone { path: b"deep/big.tar".to_vec(), size: 3 << 30, since: secs(since), alone: secs(alone) };
        let pace = Pace { tail: secs(alone), alone: secs(alone), tail_work: alone, file: Some(file), ..Pace::default() };
        ran(|r| (r.pace, r.times.writing) = (pace, secs(9.5)))
    };
    let words = "big.tar (3.0 GiB) was the only work left for 96% of the run, mostly writing the destination (76% of the work)";
    is(&alone(9.6, 9.8), MACHINE, &near(), Limiter::OneFile, words);
    is(
        &alone(4.5, 5.0),
        MACHINE,
        &near(),
        Limiter::Straggler,
        "one last file: big.tar (3.0 GiB) was the only work left for 45% of the run",
    );
    is(&alone(1.0, 5.0), MACHINE, &near(), Limiter::DestinationWrites, "writing");
    // One worker alone always ends with a last file: more workers are what it lacks.
    let mut single = alone(4.5, 5.0);
    single.workers_end = 1;
    is(&single, Machine { workers_fixed: true, ..MACHINE }, &near(), Limiter::Workers, "WORKERS: 1 worker");
    let few = |busy: f64| {
        let pace = Pace { tail: secs(8.0), tail_work: 8.0 * busy, ..Pace::default() };
        ran(|r| (r.pace, r.times.writing) = (pace, secs(15.0)))
    };
    is(&few(2.0), MACHINE, &near(), Limiter::FewFiles, "for 80% of the run only 2.0 workers on average were busy");
    is(&few(7.5), MACHINE, &near(), Limiter::DestinationWrites, "writing");
}

#[test]
fn what_was_asked_for_is_named_as_such() {
    let limit = Machine { limit: Some(1e6), ..MACHINE };
    is(&ran(|r| r.times.throttled = secs(50.0)), limit, &near(), Limiter::Limit, "LIMIT, which throttled workers for 93% of their time");
    let fixed = Machine { workers_fixed: true, ..MACHINE };
    let waits =
        |workers: u32| ran(|r| (r.times.writing, r.workers_end, r.times.cpu) = (secs(9.0 * f64::from(workers)), workers, secs(1.0)));
    is(
        &waits(1),
        fixed,
        &near(),
        Limiter::Workers,
        "WORKERS: 1 worker, waiting for writing the destination (75% of the work); without WORKERS",
    );
    is(&waits(8), fixed, &near(), Limiter::Workers, "WORKERS: 8 workers");
    is(&waits(32), fixed, &near(), Limiter::DestinationWrites, "with 32 workers");
    is(&waits(1), MACHINE, &near(), Limiter::DestinationWrites, "with 1 worker and");
    // A worker that is busy itself waits for nothing.
    is(&ran(|r| (r.times.writing, r.workers_end, r.times.cpu) = (secs(9.0), 1, secs(9.0))), fixed, &near(), Limiter::DestinationWrites, "");
}

#[test]
fn nothing_is_said_of_what_says_nothing() {
    is(&ran(|r| r.dry = true), MACHINE, &near(), Limiter::DryRun, "dry run");
    is(&ran(|r| r.elapsed = secs(0.4)), MACHINE, &near(), Limiter::TooShort, "too short");
    is(&ran(|r| r.made = Default::default()), MACHINE, &near(), Limiter::TooShort, "too short");
}

#[test]
fn words_are_unique() {
    let words: std::collections::HashSet<_> = Limiter::ALL.iter().map(|limiter| limiter.word()).collect();
    assert_eq!(words.len(), Limiter::ALL.len());
}
