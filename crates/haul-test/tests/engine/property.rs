//! What holds for any two small trees and any policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use haul_core::entry::{Kind, Time};
use haul_core::event::{Action, Why};
use haul_core::job::Job;
use haul_core::plan::Compare;
use haul_core::report::{Ending, Report};
use haul_core::spec::Deletion;
use haul_test::memory::Memory;
use proptest::prelude::*;

use crate::support::{Run, content, copying, differences, go, job, put_hard_link, put_node};

/// One thing in a tree.
#[derive(Clone, Debug)]
struct Thing {
    path: String,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    File { version: u64, size: usize, time: i64, mode: u32 },
    Dir { mode: u32 },
    Link { target: String },
    Fifo,
    HardLink { to: usize },
}

fn path() -> impl Strategy<Value = String> {
    // Few names, so that the two trees meet often, and one name is a directory here and a file there.
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c-d", "c", "e"]), 1..4).prop_map(|parts| parts.join("/"))
}

fn thing() -> impl Strategy<Value = Thing> {
    let what = prop_oneof![
        6 => (0..3u64, prop::sample::select(vec![0, 1, 500, 300_000]), 0..3i64, prop::sample::select(vec![0o644, 0o600, 0o755]))
            .prop_map(|(version, size, time, mode)| What::File { version, size, time, mode }),
        2 => prop::sample::select(vec![0o755, 0o700, 0o555]).prop_map(|mode| What::Dir { mode }),
        1 => prop::sample::select(vec!["a", "../x"]).prop_map(|target| What::Link { target: target.into() }),
        1 => Just(What::Fifo),
        1 => (0..8usize).prop_map(|to| What::HardLink { to }),
    ];
    (path(), what).prop_map(|(path, what)| Thing { path, what })
}

fn build(things: &[Thing]) -> Memory {
    let store = Memory::new();
    let mut files: Vec<String> = Vec::new();
    for thing in things {
        let parts: Vec<&str> = thing.path.split('/').collect();
        let blocked = (1..=parts.len()).any(|n| {
            let above = store.entry(parts[..n].join("/"));
            above.is_some_and(|entry| n == parts.len() || entry.kind != Kind::Dir)
        });
        if blocked {
            continue;
        }
        if let Some((above, _)) = thing.path.rsplit_once('/') {
            store.put_dir(above);
        }
        match &thing.what {
            What::File { version, size, time, mode } => {
                store.put(&thing.path, content("same content for all", *version, *size));
                set_mode(&store, &thing.path, *mode);
                // Content, size and time go together, as they do in life: the quick check is right.
                let secs = 1_700_000_000 + time * 100 + *version as i64 * 7 + *size as i64;
                store.put_time(&thing.path, Time { secs, nanos: 5 });
                files.push(thing.path.clone());
            }
            What::Dir { mode } => {
                store.put_dir(&thing.path);
                set_mode(&store, &thing.path, *mode);
            }
            What::Link { target } => put_node(&store, &thing.path, Kind::Link, target),
            What::Fifo => put_node(&store, &thing.path, Kind::Fifo, ""),
            What::HardLink { to } => match files.get(*to) {
                Some(first) => put_hard_link(&store, &thing.path, first),
                None => store.put(&thing.path, b""),
            },
        }
    }
    store
}

fn set_mode(store: &Memory, path: &str, mode: u32) {
    use haul_core::entry::MetaMask;
    use haul_core::store::{MetaSpec, Store};
    let mut entry = store.entry(path).unwrap();
    entry.mode = mode;
    let name = crate::support::name(path);
    for set in store.set_meta(&[MetaSpec { name: &name, entry: &entry, keep: MetaMask::MODE }]) {
        set.unwrap();
    }
}

fn copy_of(store: &Memory) -> Memory {
    let copy = Memory::new();
    let (report, _) = go(copying(store, &copy));
    assert_eq!(report.failed, 0);
    copy
}

fn sync(source: &Memory, target: &Memory, compare: Compare, bare: bool) -> Job {
    let hand = |store: &Memory| {
        let store = store.again();
        if bare { store.with(|caps| (caps.attributes.lists, caps.remote) = (haul_core::entry::MetaMask::NONE, true)) } else { store }
    };
    let mut sync = job(Arc::new(hand(source)), Arc::new(hand(target)));
    (sync.deletion, sync.policy.force, sync.policy.compare) = (Some(Deletion::default()), true, compare);
    sync
}

type Items = BTreeMap<(String, String), u32>;

fn items(diary: &crate::support::Diary) -> Items {
    let mut all = Items::new();
    for (action, why, path) in diary.0.lock().unwrap().iter() {
        // What stands in the way of something of another kind goes with it.
        *all.entry((format!("{action:?} {}", if *action == Action::Keep { Why::Same } else { *why }.word()), path.clone())).or_default() +=
            1;
    }
    all
}

fn counts(report: &Report) -> impl PartialEq + std::fmt::Debug + use<> {
    (report.found, report.made, report.hard_links, report.kept, report.attributes, report.deleted, report.skipped, report.file_bytes)
}

fn compares() -> impl Strategy<Value = Compare> {
    prop::sample::select(vec![Compare::SizeAndTime, Compare::Content, Compare::Never])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_a_sync_with_delete_the_trees_are_equal_and_a_second_run_keeps_all(
        ours in prop::collection::vec(thing(), 0..14),
        theirs in prop::collection::vec(thing(), 0..14),
        compare in compares(),
        bare in any::<bool>(),
        verify in any::<bool>(),
    ) {
        let (source, target) = (build(&ours), build(&theirs));
        let mut first = sync(&source, &target, compare, bare);
        first.verify = verify;
        let (report, _) = go(first);
        prop_assert_eq!((report.failed, report.vanished, report.ending), (0, 0, Ending::Complete), "{:?}", report);
        prop_assert_eq!(differences(&source, &target), Vec::<String>::new());
        prop_assert_eq!(target.sessions(), 0);
        let again = if compare == Compare::Never { Compare::SizeAndTime } else { compare };
        let (report, diary) = go(sync(&source, &target, again, bare));
        let others: Vec<_> = diary.0.lock().unwrap().iter().filter(|item| item.0 != Action::Keep).cloned().collect();
        prop_assert!(others.is_empty(), "{others:?}");
        prop_assert_eq!(report.kept.total(), report.found.total(), "{:?}", report);
    }

    #[test]
    fn a_dry_run_says_what_the_run_does(
        ours in prop::collection::vec(thing(), 0..14),
        theirs in prop::collection::vec(thing(), 0..14),
        bare in any::<bool>(),
    ) {
        // Which of several names leads is the workers' affair.
        let apart: Vec<Thing> = ours.into_iter().filter(|thing| !matches!(thing.what, What::HardLink { .. })).collect();
        let (source, target) = (build(&apart), build(&theirs));
        let before = copy_of(&target);
        let mut dry = sync(&source, &target, Compare::SizeAndTime, bare);
        dry.dry = true;
        let (said, would) = go(dry);
        prop_assert_eq!(differences(&before, &target), Vec::<String>::new(), "a dry run changed something");
        let (report, does) = go(sync(&source, &target, Compare::SizeAndTime, bare));
        prop_assert_eq!(items(&would), items(&does));
        prop_assert_eq!(counts(&said), counts(&report));
    }

    #[test]
    fn the_number_of_workers_changes_neither_tree_nor_report(
        ours in prop::collection::vec(thing(), 0..14),
        theirs in prop::collection::vec(thing(), 0..14),
    ) {
        let source = build(&ours);
        let mut all = Vec::new();
        for workers in [1, 8] {
            let target = build(&theirs);
            let (report, _) = Run::workers(workers).go(sync(&source, &target, Compare::SizeAndTime, false));
            prop_assert_eq!(differences(&source, &target), Vec::<String>::new());
            all.push(counts(&report));
        }
        prop_assert_eq!(&all[0], &all[1]);
    }

    #[test]
    fn every_entry_found_is_counted_once(ours in prop::collection::vec(thing(), 0..14)) {
        let (source, target) = (build(&ours), Memory::new());
        let (report, _) = go(copying(&source, &target));
        let mut accounted = report.made;
        accounted += report.kept;
        accounted += report.skipped;
        prop_assert_eq!(report.found, accounted);
        let bytes: u64 = source.paths().iter().filter_map(|path| source.get(path)).map(|bytes| bytes.len() as u64).sum();
        prop_assert!(report.bytes <= bytes && report.file_bytes <= bytes);
    }
}
