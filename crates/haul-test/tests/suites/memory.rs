//! The conformance suite on the store in memory, with everything it can do and with abilities taken away.

use std::time::Duration;

use haul_core::entry::MetaMask;
use haul_core::hash::Algorithm;
use haul_core::store::WriteStyle;
use haul_test::memory::Memory;
use haul_test::store_suite;
use haul_test::suite::Fixture;

store_suite!(everything, || Fixture::of_memory(Memory::new()));

store_suite!(objects, || Fixture::of_memory(Memory::objects()));

store_suite!(computing, || Fixture::of_memory(Memory::new().computing(&[Algorithm::Sha256, Algorithm::Md5])));

store_suite!(in_order, || Fixture::of_memory(Memory::new().with(|caps| {
    caps.write = WriteStyle::InOrder;
    caps.read_ranges = false;
    caps.links = false;
    caps.specials = false;
    caps.hard_links = false;
    caps.attach = false;
    caps.direct_create = false;
    caps.atomic_commit = false;
    caps.attributes.sets = MetaMask::MTIME;
    caps.attributes.lists = MetaMask::NONE;
    caps.attributes.mtime_resolution = Duration::from_secs(2);
    caps.names.max = 143;
})));

store_suite!(folding, || Fixture::of_memory(Memory::new().with(|caps| {
    caps.names.folds_case = true;
    caps.tuning.bundle_files = 10;
    caps.tuning.bundle_bytes = 4096;
    caps.attributes.lists = MetaMask::BASIC;
    caps.attributes.sets = MetaMask::NONE;
})));

/// A check that is written and not listed in the macro would never run.
#[test]
fn every_check_is_in_the_suite() {
    let listed = include_str!("../../src/suite/mod.rs");
    let groups = [
        include_str!("../../src/suite/write.rs"),
        include_str!("../../src/suite/read.rs"),
        include_str!("../../src/suite/names.rs"),
        include_str!("../../src/suite/bundles.rs"),
        include_str!("../../src/suite/meta.rs"),
    ];
    let written: Vec<&str> = groups
        .iter()
        .flat_map(|source| source.split("\npub fn ").skip(1))
        .filter_map(|rest| rest.split_once("(f: &Fixture)").map(|(check, _)| check))
        .collect();
    assert!(written.len() > 50);
    for check in written {
        assert!(listed.contains(&format!("{check},")) || listed.contains(&format!("{check};")), "{check} is not in `store_suite!`");
    }
}
