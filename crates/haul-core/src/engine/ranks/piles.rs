//! Records that are collected at one rank: names of files with several, directories that come last.

use std::sync::atomic::Ordering;

use crate::engine::context::Context;
use crate::engine::post_pass::sort;
use crate::engine::tries::retry;
use crate::entry::{Dir, Entry, MetaMask, Name};
use crate::hash::xxh128;
use crate::lock::lock;
use crate::team::message::{Message, Pile};

use super::Ranks;

/// Records that go to a rank by one message.
const RECORDS: usize = 256;

impl Ranks {
    /// The device of an entry, as all nodes number it: of the file system of a root, the first root that lies on it. What is
    /// mounted below a root has another number on each node: its files are told apart by what else is known of them.
    pub fn device(&self, cx: &Context, root: usize, entry: &Entry) -> u64 {
        let devices = self.devices.get_or_init(|| {
            let top = Name::of(&Dir::root());
            cx.job.roots.iter().map(|root| retry(|| root.store.stat(&top, MetaMask::NONE)).ok().map(|top| top.dev)).collect()
        });
        if devices.get(root).copied().flatten() == Some(entry.dev) {
            return devices.iter().position(|device| *device == Some(entry.dev)).unwrap_or(root) as u64;
        }
        let known = format!("{root} {} {} {} {:?}", entry.dev, entry.ino, entry.size, entry.mtime);
        xxh128(known.as_bytes()) as u64 | 1 << 63
    }

    /// A name of a file with several: all of them meet at one rank, which the number of the inode chooses.
    pub fn linked(&self, cx: &Context, ino: u64, record: Vec<u8>) {
        let home = (xxh128(&ino.to_le_bytes()) % u128::from(self.team.transport.ranks())) as u32;
        if home == self.rank() {
            return sort(&cx.post_pass.linked, &cx.out, &record);
        }
        *lock(&self.outgoing).linked.entry(home).or_default() += 1;
        self.collect(cx, home, Pile::Linked, record);
    }

    /// Leaves a record to rank 0.
    pub fn leave(&self, cx: &Context, pile: Pile, record: &[u8]) {
        self.collect(cx, 0, pile, record.to_vec());
    }

    fn collect(&self, cx: &Context, to: u32, pile: Pile, record: Vec<u8>) {
        let full = {
            let mut outgoing = lock(&self.outgoing);
            let batch = outgoing.batches.entry((to, pile as u8)).or_default();
            batch.push(record);
            if batch.len() >= RECORDS { std::mem::take(batch) } else { Vec::new() }
        };
        if !full.is_empty() {
            self.send(cx, to, &Message::Records(pile, full));
        }
    }

    /// The walk is over: sends what was collected, and says how many names of files with several each rank has got from here.
    pub fn flush(&self, cx: &Context) -> Vec<(u32, u64)> {
        self.walked.store(true, Ordering::Release);
        lock(&self.policy).walk_is_over();
        let (batches, linked) = {
            let mut outgoing = lock(&self.outgoing);
            (std::mem::take(&mut outgoing.batches), outgoing.linked.drain().collect())
        };
        for ((to, pile), records) in batches.into_iter().filter(|(_, records)| !records.is_empty()) {
            let pile = [Pile::Linked, Pile::Dirs, Pile::Emptied][usize::from(pile)];
            self.send(cx, to, &Message::Records(pile, records));
        }
        linked
    }
}
