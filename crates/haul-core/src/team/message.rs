//! What ranks send to each other.

use crate::cancel::Stop;
use crate::spread::RankWork;
use crate::store::Receipt;

use super::policy::Word;
use super::wire::{Cursor, put_all, put_bytes};
use crate::varint;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Word(Word),
    /// Parts of the sender's work, each as [`Lease`] encodes it.
    Work {
        /// The rank that names or chunks among them come from.
        origin: Option<u32>,
        leases: Vec<Vec<u8>>,
    },
    /// What was given by one message of work is done, or is taken care of by others who are still to confirm.
    Confirmed,
    /// Nothing of a lease is open any more in the directory that it is from.
    Done {
        lease: u64,
        /// Something was made in the directory that it is from.
        touched: bool,
    },
    /// Chunks of a lease have landed.
    WriteOutcome {
        lease: u64,
        receipts: Vec<Receipt>,
        /// Nobody is at it any more: what has not landed by now is the owner's again.
        done: bool,
    },
    /// Records of one kind for the receiver.
    Records(Pile, Vec<Vec<u8>>),
    /// From rank 0: the next step of the end of the job.
    Step {
        step: u32,
        /// How many records of [`Pile::Linked`] the receiver gets from all.
        linked: u64,
    },
    /// To rank 0: the sender is done with a step.
    StepDone {
        step: u32,
        tally: Tally,
    },
    /// The sender's report: its last message but signs of life.
    Report(Vec<u8>),
    /// From rank 0: nothing follows.
    Bye,
    /// The sender ends, for this reason.
    Stop {
        why: Stop,
        reason: String,
    },
    /// A sign of life, with the name of the sender's node, how far it is and what it has done.
    Alive(String, Counts, WorkNumbers),
    /// From rank 0: the most workers of the receiver.
    Workers(u32),
    /// From rank 0: the receiver's share of `--bwlimit`, in bytes a second.
    Limit(u64),
}

/// Records that are collected at one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pile {
    /// Names of files with several names.
    Linked,
    /// Directories whose attributes come at the very end.
    Dirs,
    /// Directories of the source that a move is done with.
    Emptied,
}

/// What a rank knows at the end of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Something could not be listed or copied.
    pub impaired: bool,
    /// Names to delete, as far as they have been met: the topmost of each tree.
    pub topmost: u64,
    /// The same with all below them, where a limit has to be kept.
    pub deletes: u64,
    pub matched: u64,
    /// Names that the source has listed: see `PostPass::listed`.
    pub listed: u64,
    /// Records of [`Pile::Linked`] that were sent to each rank.
    pub linked: Vec<(u32, u64)>,
}

/// For the display: found, planned files and bytes, files done, bytes moved and resumed, kept, failed.
pub type Counts = [u64; 8];

/// [`RankWork::numbers`]
pub type WorkNumbers = [u64; RankWork::NUMBERS];

const STOPS: [Stop; 4] = [Stop::Signal, Stop::Deadline, Stop::Timeout, Stop::Failure];
const PILES: [Pile; 3] = [Pile::Linked, Pile::Dirs, Pile::Emptied];

impl Message {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut begin = |numbers: &[u64]| put_all(&mut out, numbers);
        match self {
            Message::Word(Word::Ask) => begin(&[0]),
            Message::Word(Word::Nothing(origin)) => begin(&[1, some(*origin)]),
            Message::Word(Word::Wait) => begin(&[2]),
            Message::Work { origin, leases } => {
                begin(&[3, some(*origin)]);
                leases.iter().for_each(|lease| put_bytes(&mut out, lease));
            }
            Message::Done { lease, touched } => begin(&[4, *lease, u64::from(*touched)]),
            Message::Records(pile, records) => {
                begin(&[5, PILES.iter().position(|known| known == pile).unwrap_or(0) as u64]);
                records.iter().for_each(|record| put_bytes(&mut out, record));
            }
            Message::Step { step, linked } => begin(&[6, u64::from(*step), *linked]),
            Message::StepDone { step, tally } => {
                let Tally { impaired, topmost, deletes, matched, listed, linked } = tally;
                begin(&[7, u64::from(*step), u64::from(*impaired), *topmost, *deletes, *matched, *listed]);
                linked.iter().for_each(|(rank, count)| put_all(&mut out, &[u64::from(*rank), *count]));
            }
            Message::Report(report) => {
                begin(&[8]);
                out.extend_from_slice(report);
            }
            Message::Bye => begin(&[9]),
            Message::Stop { why, reason } => {
                begin(&[10, STOPS.iter().position(|known| known == why).unwrap_or(0) as u64]);
                put_bytes(&mut out, reason.as_bytes());
            }
            Message::Alive(node, counts, work) => {
                begin(&[11]);
                put_bytes(&mut out, node.as_bytes());
                put_all(&mut out, counts);
                put_all(&mut out, work);
            }
            Message::Confirmed => begin(&[12]),
            Message::Workers(most) => begin(&[14, u64::from(*most)]),
            Message::Limit(rate) => begin(&[15, *rate]),
            Message::WriteOutcome { lease, receipts, done } => {
                begin(&[13, *lease, u64::from(*done)]);
                for receipt in receipts {
                    varint::put(&mut out, u64::from(receipt.index));
                    put_bytes(&mut out, &receipt.tag);
                    put_bytes(&mut out, receipt.hash.map(u128::to_le_bytes).as_ref().map_or(&[], |hash| &hash[..]));
                }
            }
        }
        out
    }

    /// `None` for what [`Message::encode`] has not made.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let mut from = Cursor(bytes);
        let message = match from.number()? {
            0 => Message::Word(Word::Ask),
            1 => Message::Word(Word::Nothing(none(from.small()?))),
            2 => Message::Word(Word::Wait),
            3 => Message::Work { origin: none(from.small()?), leases: rest(&mut from)? },
            4 => Message::Done { lease: from.number()?, touched: from.flag()? },
            5 => Message::Records(*PILES.get(from.small()? as usize)?, rest(&mut from)?),
            6 => Message::Step { step: from.small()?, linked: from.number()? },
            7 => {
                let step = from.small()?;
                let (impaired, topmost, deletes) = (from.flag()?, from.number()?, from.number()?);
                let (matched, listed) = (from.number()?, from.number()?);
                let mut linked = Vec::new();
                while !from.is_empty() {
                    linked.push((from.small()?, from.number()?));
                }
                Message::StepDone { step, tally: Tally { impaired, topmost, deletes, matched, listed, linked } }
            }
            8 => Message::Report(std::mem::take(&mut from.0).to_vec()),
            9 => Message::Bye,
            10 => Message::Stop { why: *STOPS.get(from.small()? as usize)?, reason: from.text()? },
            11 => {
                let (node, mut counts, mut work) = (from.text()?, Counts::default(), WorkNumbers::default());
                for number in counts.iter_mut().chain(&mut work) {
                    *number = from.number()?;
                }
                Message::Alive(node, counts, work)
            }
            12 => Message::Confirmed,
            13 => {
                let (lease, done) = (from.number()?, from.flag()?);
                let mut receipts = Vec::new();
                while !from.is_empty() {
                    let (index, tag, hash) = (from.small()?, from.bytes()?.into(), from.bytes()?);
                    let hash = if hash.is_empty() { None } else { Some(u128::from_le_bytes(hash.try_into().ok()?)) };
                    receipts.push(Receipt { index, tag, hash });
                }
                Message::WriteOutcome { lease, receipts, done }
            }
            14 => Message::Workers(from.small()?),
            15 => Message::Limit(from.number()?),
            _ => return None,
        };
        from.is_empty().then_some(message)
    }
}

/// A rank that may be missing, as a number.
fn some(rank: Option<u32>) -> u64 {
    rank.map_or(0, |rank| u64::from(rank) + 1)
}

fn none(number: u32) -> Option<u32> {
    number.checked_sub(1)
}

fn rest(from: &mut Cursor<'_>) -> Option<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    while !from.is_empty() {
        all.push(from.bytes()?.to_vec());
    }
    Some(all)
}

/// A path, flags and entries: one lease as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// Its number at the owner.
    pub id: u64,
    /// Index of the source root.
    pub root: usize,
    /// The directory that it is from.
    pub path: Vec<u8>,
    /// That directory's entry, if it has one, without its name.
    pub entry: Option<Vec<u8>>,
    /// Nothing stands in that directory at the destination.
    pub fresh: bool,
    /// Directories in it, as they wait on disk.
    pub dirs: Vec<Vec<u8>>,
    /// Names in it.
    pub names: Vec<Vec<u8>>,
    /// Chunks of a file in it.
    pub part: Option<Vec<u8>>,
}

impl Lease {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_all(&mut out, &[self.id, self.root as u64, u64::from(self.fresh)]);
        put_all(&mut out, &[u64::from(self.entry.is_some()), u64::from(self.part.is_some())]);
        put_bytes(&mut out, &self.path);
        put_bytes(&mut out, self.entry.as_deref().unwrap_or_default());
        put_bytes(&mut out, self.part.as_deref().unwrap_or_default());
        varint::put(&mut out, self.dirs.len() as u64);
        self.dirs.iter().chain(&self.names).for_each(|record| put_bytes(&mut out, record));
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Lease> {
        let mut from = Cursor(bytes);
        let (id, root, fresh) = (from.number()?, from.number()? as usize, from.flag()?);
        let (has_entry, has_part) = (from.flag()?, from.flag()?);
        let (path, entry, part) = (from.bytes()?.to_vec(), from.bytes()?.to_vec(), from.bytes()?.to_vec());
        let count = from.number()?;
        let dirs = (0..count).map(|_| Some(from.bytes()?.to_vec())).collect::<Option<Vec<_>>>()?;
        let names = rest(&mut from)?;
        Some(Lease { id, root, path, entry: has_entry.then_some(entry), fresh, dirs, names, part: has_part.then_some(part) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let lease = Lease { id: 7, root: 1, path: b"a/b".to_vec(), entry: Some(vec![1]), fresh: true, ..Lease::default() };
        let lease = Lease { dirs: vec![b"x".to_vec()], names: vec![b"y".to_vec(), b"".to_vec()], part: Some(Vec::new()), ..lease };
        assert_eq!(Lease::decode(&lease.encode()), Some(lease.clone()));
        let receipt = |hash| Receipt { index: 300, tag: b"etag"[..].into(), hash };
        let tally = Tally { impaired: true, topmost: 300, deletes: 4, matched: 5, listed: 6, linked: vec![(1, 2), (3, 1 << 40)] };
        let all = [
            Message::Word(Word::Ask),
            Message::Word(Word::Nothing(None)),
            Message::Word(Word::Nothing(Some(0))),
            Message::Word(Word::Wait),
            Message::Work { origin: Some(7), leases: vec![lease.encode(), Vec::new()] },
            Message::Work { origin: None, leases: Vec::new() },
            Message::Done { lease: 1 << 50, touched: true },
            Message::Records(Pile::Emptied, vec![b"a".to_vec()]),
            Message::Step { step: 3, linked: 9 },
            Message::StepDone { step: 3, tally },
            Message::Report(vec![0, 255]),
            Message::Bye,
            Message::Stop { why: Stop::Timeout, reason: "rank 2 is gone".into() },
            Message::Alive("node17".into(), [1, 2, 3, 4, 5, 6, 7, 1 << 60], [9, 8, 7, 6, 5, 4, 3, 2]),
            Message::Workers(7),
            Message::Limit(1 << 40),
            Message::Confirmed,
            Message::WriteOutcome { lease: 5, receipts: vec![receipt(None), receipt(Some(1 << 100))], done: true },
        ];
        for message in all {
            assert_eq!(Message::decode(&message.encode()), Some(message.clone()), "{message:?}");
        }
        assert_eq!(Message::decode(b""), None);
        assert_eq!(Message::decode(&[99]), None);
    }
}
