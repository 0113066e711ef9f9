//! Stories for the journal's tests.

mod fold;
mod state;
mod writer;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;

use super::lock::{self, Holder, Lock};
use super::log::{HEADER, Reader, VOID_AT, frame};
use super::progress::Fold;
use super::*;
use crate::entry::{Stamp, Time};
use crate::error::ErrorKind;
use crate::store::{Receipt, Token};

const BOOT: [u8; 16] = [7; 16];

fn here() -> Here {
    Here { host: "node".into(), boot: BOOT, ..Here::find() }
}

fn identity() -> Identity {
    Identity { sources: vec!["/data/a b".into()], target: "/scratch/\u{e9}\\n".into(), reached: "s3 host key".into() }
}

fn stamp(size: u64) -> Stamp {
    Stamp { size, mtime: Time { secs: -5, nanos: 9 }, version: u64::MAX }
}

fn token(words: &str) -> Token {
    Token(words.as_bytes().into())
}

fn receipt(index: u32) -> Receipt {
    Receipt { index, tag: Box::default(), hash: None }
}

fn begun(boot: [u8; 16]) -> Record {
    Record::Begun { version: 1, identity: identity(), boot, host: "node".into(), pid: 1, unix_seconds: 2 }
}

fn log(records: &[Record]) -> Vec<u8> {
    let mut log = HEADER.to_vec();
    for record in records {
        assert!(frame(&mut log, |to| record.encode(to)));
    }
    log
}

fn fold(log: &[u8]) -> Fold {
    Fold::read(BOOT, "node", log).expect("memory can be read").0
}

fn begin() -> Begin {
    Begin { command: "haul cp 'a b' c".into(), ..Begin::default() }
}

fn restart() -> Begin {
    Begin { restart: true, ..begin() }
}

struct Place {
    dir: tempfile::TempDir,
    state: State,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let state = State::open_as(dir.path().join("state"), here()).unwrap();
    Place { dir, state }
}

impl Place {
    fn job(&self) -> JobDir {
        self.state.begin(&identity(), begin()).unwrap()
    }
    fn file(&self, name: &str) -> std::path::PathBuf {
        self.state.root().join("jobs").join(identity().id()).join(name)
    }
    fn names(&self) -> Vec<String> {
        let dir = std::fs::read_dir(self.file("")).unwrap();
        let mut names: Vec<String> = dir.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A run of some length, with everything in it.
fn story() -> Vec<Record> {
    let opened = |session, path: &str, chunk| Record::Opened {
        session,
        path: path.into(),
        stamp: stamp(1000),
        chunk,
        token: token(&format!("t{session}")),
    };
    let landed = |session, index| Record::WriteOutcome { session, receipt: receipt(index) };
    let intent = |bundle, dir: &str, leaves: &[&str]| Record::Intent {
        bundle,
        dir: dir.into(),
        leaves: leaves.iter().map(|leaf| (*leaf).into()).collect(),
    };
    vec![
        begun([1; 16]),
        opened(0, "a/x", 100),
        landed(0, 3),
        intent(0, "a", &["s", "t", "u"]),
        intent(1, "", &["v"]),
        Record::WriteOutcome { session: 0, receipt: Receipt { index: 9, tag: b"etag"[..].into(), hash: Some(u128::MAX) } },
        Record::Placed { bundle: 1 },
        begun(BOOT),
        landed(0, 9),
        opened(1, "y", 1),
        landed(1, 999),
        landed(1, 1000), // beyond the file
        landed(5, 0),    // of no session
        intent(0, "a", &["t"]),
        Record::Placed { bundle: 0 },
        intent(1, "b\n", &["s", "\u{fe}"]),
        opened(2, "a/u", 10),
        Record::Committed { session: 2 },
        Record::Dropped { session: 1 },
    ]
}

fn place_with(journal: &[u8]) -> Place {
    let place = place();
    place.job().keep();
    File::create(place.file("journal")).unwrap().write_all(journal).unwrap();
    place
}
