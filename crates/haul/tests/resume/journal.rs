//! Journals that end anywhere, and journals that are damaged.

use std::cell::RefCell;
use std::fs;

use haul_test::compare::What;

use crate::support::{COPY, World};

const HEADER: usize = 8;
const FRAME: usize = 8;

/// Ends of the records of a log.
fn boundaries(log: &[u8]) -> Vec<usize> {
    let mut ends = vec![0, HEADER];
    while let Some(head) = log.get(ends[ends.len() - 1]..).and_then(|rest| rest.first_chunk::<4>()) {
        ends.push(ends[ends.len() - 1] + FRAME + u32::from_le_bytes(*head) as usize);
    }
    ends
}

/// One run that is killed near its end, `harm` to its journal, and the run after it.
fn harmed(w: &World, record: u64, when: &str, harm: impl Fn(&mut Vec<u8>)) {
    w.begin_anew();
    let command = format!("{COPY} -a -j 1 src/ dst");
    w.killed_at(record, &command);
    let mut log = fs::read(w.journal()).expect("it is there");
    harm(&mut log);
    fs::write(w.journal(), log).expect("written");
    w.haul(&command).ends(0);
    w.assert_done("dst", What::ALL, when);
}

fn world() -> World {
    World::new("src: a=1K empty=0 large=400K d/e=5K d/larger=600K old: a=900 large=300K")
}

#[test]
#[ignore = "full"]
fn every_prefix_by_record_and_some_between() {
    let (w, record) = (world(), 16);
    let ends = RefCell::default();
    harmed(&w, record, "the whole journal", |log| *ends.borrow_mut() = boundaries(log));
    let ends = ends.into_inner();
    assert!(ends.len() > 15, "{ends:?}");
    for end in ends {
        for cut in [end.saturating_sub(1), end, end + 3] {
            harmed(&w, record, &format!("cut at byte {cut}"), |log| log.truncate(cut));
        }
    }
}

#[test]
fn a_damaged_byte_anywhere() {
    let w = world();
    for at in (0..400).step_by(29) {
        harmed(&w, 12, &format!("byte {at} damaged"), |log| {
            if let Some(byte) = log.get_mut(at) {
                *byte ^= 0x40;
            }
        });
    }
}

#[test]
fn a_journal_that_is_something_else() {
    let w = world();
    for what in [&b""[..], b"x", b"haulj9\0\n and more", &[0xff; 4096]] {
        harmed(&w, 12, "another file", |log| *log = what.to_vec());
    }
}

#[test]
fn a_journal_that_cannot_be_read_stops_the_run() {
    let w = world();
    let command = format!("{COPY} -a -j 1 src/ dst");
    w.killed_at(12, &command);
    let journal = w.journal();
    fs::remove_file(&journal).and_then(|()| fs::create_dir(&journal)).expect("a directory");
    w.haul(&command).ends(11).says("--restart");
    w.haul(&format!("{command} --restart")).ends(0);
    w.assert_done("dst", What::ALL, "with a directory for a journal");
}
