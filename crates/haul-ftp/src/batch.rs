//! Small files, many in a call: groups of them on connections of their own, each with its commands sent ahead.
//!
//! A file takes two round trips: its command goes out with the opening of its data connection, and its data before the server has
//! answered; behind the command waits the EPSV for the next file. A server that reads commands during a transfer gets its EPSV only
//! afterwards, and a file takes three round trips.

use std::time::Instant;

use haul_core::bundle::items::{self, fail};
use haul_core::bundle::{Bundle, Outcome};
use haul_net::http_client::parallel::in_parallel;

use super::features::get;
use super::gets::Get;
use super::paths::join;
use super::puts::Put;
use super::store::Shared;

/// Files of one group at the least: a group costs two round trips beside those of its files.
const GROUP: usize = 4;
/// Groups of one call that move at the same time.
const GROUPS: usize = 4;
/// Bytes that a connection takes before the other end reads any.
pub const EAGER: usize = 64 << 10;

pub const READ: &str = "read";
pub const WRITE: &str = "write";

fn groups<T>(all: Vec<T>) -> Vec<Vec<T>> {
    let size = all.len().div_ceil(GROUPS).max(GROUP);
    let mut groups: Vec<Vec<T>> = Vec::new();
    for one in all {
        match groups.last_mut() {
            Some(last) if last.len() < size => last.push(one),
            _ => groups.push(vec![one]),
        }
    }
    groups
}

impl Shared {
    /// `blocks`: in extended block mode.
    pub fn put_bundle(&self, bundle: &mut Bundle, blocks: bool) {
        let begun = Instant::now();
        let mut outcomes = Vec::new();
        let mut puts = Vec::new();
        let read = items::read(bundle);
        let proofs = self.prove(&read.iter().map(|index| &*bundle.items[*index].entry.name.leaf).collect::<Vec<_>>());
        for (index, proof) in read.into_iter().zip(proofs) {
            let item = &bundle.items[index];
            let paths = proof
                .and_then(|()| self.target(&item.entry.name, "create"))
                .and_then(|target| Ok((target, self.dir(&item.entry.name.dir, "create")?)));
            match paths {
                Ok((target, above)) => {
                    let path = join(&above, &self.names.leaf(&item.entry.name.leaf, item.entry.stamp()));
                    puts.push(Put { index, entry: &item.entry, bytes: &bundle.data[item.at.clone()], path, target });
                }
                Err(e) => outcomes.push((index, Err(e))),
            }
        }
        let sent;
        let puts = if blocks && !puts.is_empty() {
            sent = std::mem::take(&mut puts);
            let (done, again) = self.put_in_blocks(&sent, bundle.keep);
            outcomes.extend(done);
            again
        } else {
            puts
        };
        let groups = groups(puts);
        outcomes.extend(in_parallel(&self.threads, &groups, GROUPS, |group| self.put_group(group, bundle.keep)).into_iter().flatten());
        for (index, outcome) in outcomes {
            match outcome {
                Ok(landed) => bundle.items[index].outcome = Outcome::Written(landed),
                Err(e) => fail(&mut bundle.items[index], e),
            }
        }
        bundle.spent.writing += begun.elapsed();
    }

    pub fn get_bundle(&self, bundle: &mut Bundle, most: usize) {
        let begun = Instant::now();
        let mut gets = Vec::new();
        let mut outcomes = Vec::new();
        for index in items::listed(bundle) {
            let entry = &bundle.items[index].entry;
            match self.target(&entry.name, "open") {
                Ok(path) => gets.push(Get { index, entry, path }),
                Err(e) => outcomes.push((index, Err(e))),
            }
        }
        if get(&self.features.extended_reads) && gets.len() >= GROUP {
            let (done, again) = self.get_in_blocks(&gets, most);
            outcomes.extend(done);
            gets = again;
        }
        let (groups, follow) = (groups(gets), bundle.follow);
        outcomes.extend(in_parallel(&self.threads, &groups, GROUPS, |group| self.get_group(group, follow, most)).into_iter().flatten());
        outcomes.sort_by_key(|(index, _)| *index);
        for (index, outcome) in outcomes {
            let item = &mut bundle.items[index];
            match outcome {
                Ok(Some((entry, bytes))) => {
                    item.at = bundle.data.len()..bundle.data.len() + bytes.len();
                    bundle.data.extend_from_slice(&bytes);
                    (item.entry, item.outcome) = (entry, Outcome::Read);
                }
                // Larger than it was taken for: it is for others.
                Ok(None) => {}
                Err(e) => fail(item, e),
            }
        }
        bundle.spent.reading += begun.elapsed();
    }
}
