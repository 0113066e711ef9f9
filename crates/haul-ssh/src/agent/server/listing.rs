//! Listings: many names with their attributes in each part of the answer.

use haul_core::entry::MetaMask;
use haul_core::error::{Error, Result};
use haul_core::store::{Flow, Found};

use super::names::Names;
use super::{Reply, Root};
use crate::agent::wire::{Parser, Writer};

const PART: usize = 512;

/// What cannot be read is an error in the place of its attributes.
pub fn list(root: &Root, from: &mut Parser<'_>, reply: &Reply<'_>) -> Result<()> {
    let dir = Names::of(root).dir(from)?;
    let mut leaves: Vec<Vec<u8>> = Vec::new();
    let mut wanted = true;
    let send = |leaves: &mut Vec<Vec<u8>>, failed: Option<Error>| {
        let mut to = Writer::default();
        let names: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
        for (leaf, found) in names.iter().zip(root.store.stat_many(&dir, &names, MetaMask::NONE, false)) {
            match found {
                Found::Entry(entry) => to.mark(0).bytes(leaf).attributes(&entry, MetaMask::NONE),
                Found::Absent => continue,
                Found::Failed(e) => to.mark(1).bytes(leaf).error(&e),
            };
        }
        if let Some(e) = failed {
            to.mark(1).bytes(b"").error(&e);
        }
        leaves.clear();
        to.out.is_empty() || reply.more(&to.out)
    };
    root.store.list(&dir, &mut |found| {
        match found {
            Ok(entry) => leaves.push(entry.name.leaf.to_vec()),
            Err(e) => wanted &= send(&mut leaves, Some(e)),
        }
        if leaves.len() >= PART {
            wanted &= send(&mut leaves, None);
        }
        if wanted { Flow::Go } else { Flow::Stop }
    })?;
    if wanted && !leaves.is_empty() {
        send(&mut leaves, None);
    }
    reply.done(&[]);
    Ok(())
}
