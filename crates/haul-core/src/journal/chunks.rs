//! The chunks of an unfinished write that landed.

use std::collections::BTreeMap;

use crate::store::Receipt;

/// The chunks of a file that landed, with what is needed of their receipts: a bit or two per chunk without hash and tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    /// By index / 64.
    words: BTreeMap<u32, Word>,
    proofs: BTreeMap<u32, Proof>,
    /// First bytes of chunks that landed in part, under this boot of this host. At most one per worker.
    parts: BTreeMap<u32, u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Word {
    landed: u64,
    /// WriteOutcome under this boot of this host, so that a kill cannot have undone it.
    own: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Proof {
    tag: Box<[u8]>,
    hash: Option<u128>,
}

impl Chunks {
    pub(super) fn insert(&mut self, receipt: Receipt, own: bool) {
        let bit = 1u64 << (receipt.index % 64);
        self.parts.remove(&receipt.index);
        let word = self.words.entry(receipt.index / 64).or_default();
        word.landed |= bit;
        if own {
            word.own |= bit;
        } else {
            word.own &= !bit;
        }
        if receipt.hash.is_none() && receipt.tag.is_empty() {
            self.proofs.remove(&receipt.index);
        } else {
            self.proofs.insert(receipt.index, Proof { tag: receipt.tag, hash: receipt.hash });
        }
    }

    pub(super) fn insert_part(&mut self, index: u32, bytes: u64) {
        if !self.has(index) {
            self.parts.insert(index, bytes);
        }
    }

    /// Forgets parts of chunks: the run of another boot or host went on with them.
    pub(super) fn clear_parts(&mut self) {
        self.parts.clear();
    }

    /// Chunks that landed in part: index, and how many of their first bytes.
    pub fn parts(&self) -> impl Iterator<Item = (u32, u64)> {
        self.parts.iter().map(|(index, bytes)| (*index, *bytes))
    }

    pub fn has(&self, index: u32) -> bool {
        self.words.get(&(index / 64)).is_some_and(|word| word.landed >> (index % 64) & 1 == 1)
    }

    /// Whether the chunk landed under another boot or on another host: its data may be lost and must be hashed again.
    pub fn is_foreign(&self, index: u32) -> bool {
        self.words.get(&(index / 64)).is_some_and(|word| (word.landed & !word.own) >> (index % 64) & 1 == 1)
    }

    pub fn any_foreign(&self) -> bool {
        self.words.values().any(|word| word.landed & !word.own != 0)
    }

    pub fn count(&self) -> u64 {
        self.words.values().map(|word| u64::from(word.landed.count_ones())).sum()
    }

    /// In the order of their indices.
    pub fn receipts(&self) -> impl Iterator<Item = Receipt> {
        let bits = self.words.iter().flat_map(|(at, word)| (0..64).filter(|bit| word.landed >> bit & 1 == 1).map(move |bit| at * 64 + bit));
        bits.map(|index| match self.proofs.get(&index) {
            Some(proof) => Receipt { index, tag: proof.tag.clone(), hash: proof.hash },
            None => Receipt { index, tag: Box::default(), hash: None },
        })
    }
}
