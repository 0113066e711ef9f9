//! Journals that end anywhere, and journals that are damaged.

use std::fs;

use haul_test::compare::What;

use crate::support::{CHUNK_WORDS, Place, copy_tree};

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
fn harmed(place: &Place, record: u64, when: &str, harm: impl Fn(&mut Vec<u8>)) {
    for left in ["dst", "state"] {
        let _absent = fs::remove_dir_all(place.join(left));
    }
    copy_tree(&place.join("old"), &place.join("dst"));
    let command = format!("cp -a -j 1 --chunk-size {CHUNK_WORDS} src/ dst");
    assert!(place.haul(&command).kill_at(record).run().was_killed());
    let mut log = fs::read(place.journal()).expect("it is there");
    harm(&mut log);
    fs::write(place.journal(), log).expect("written");
    place.haul(&command).run().code(0);
    place.assert_done("src", "dst", What::ALL, when);
}

fn place() -> Place {
    let place = Place::new();
    place.tree("src: a=1K empty=0 large=400K d/e=5K d/larger=600K old: a=900 large=300K");
    place
}

#[test]
fn every_prefix_by_record_and_some_between() {
    let place = place();
    let record = 16;
    let mut ends = Vec::new();
    harmed(&place, record, "the whole journal", |_| {});
    let command = format!("cp -a -j 1 --chunk-size {CHUNK_WORDS} src/ dst");
    for left in ["dst", "state"] {
        let _absent = fs::remove_dir_all(place.join(left));
    }
    copy_tree(&place.join("old"), &place.join("dst"));
    assert!(place.haul(&command).kill_at(record).run().was_killed());
    ends.extend(boundaries(&fs::read(place.journal()).expect("it is there")));
    assert!(ends.len() > 15, "{ends:?}");
    for end in ends {
        for cut in [end.saturating_sub(1), end, end + 3] {
            harmed(&place, record, &format!("cut at byte {cut}"), |log| log.truncate(cut));
        }
    }
}

#[test]
fn a_damaged_byte_anywhere() {
    let place = place();
    for at in (0..400).step_by(29) {
        harmed(&place, 12, &format!("byte {at} damaged"), |log| {
            if let Some(byte) = log.get_mut(at) {
                *byte ^= 0x40;
            }
        });
    }
}

#[test]
fn a_journal_that_is_something_else() {
    let place = place();
    for what in [&b""[..], b"x", b"haulj9\0\n and more", &[0xff; 4096]] {
        harmed(&place, 12, "another file", |log| *log = what.to_vec());
    }
}

#[test]
fn a_journal_that_cannot_be_read_stops_the_run() {
    let place = place();
    let command = format!("cp -a -j 1 --chunk-size {CHUNK_WORDS} src/ dst");
    assert!(place.haul(&command).kill_at(12).run().was_killed());
    let journal = place.journal();
    fs::remove_file(&journal).and_then(|()| fs::create_dir(&journal)).expect("a directory");
    place.haul(&command).run().code(11).says("--restart");
    place.haul(&format!("{command} --restart")).run().code(0);
    place.assert_done("src", "dst", What::ALL, "with a directory for a journal");
}
