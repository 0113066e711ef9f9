//! Enumerations as bytes. The positions in the tables are the protocol's: new ones come at the end.

use haul_core::entry::{Kind, TimeRange};
use haul_core::error::{ErrorKind, Result};
use haul_core::hash::Algorithm;
use haul_core::store::{Proof, Who, time_range};

use super::protocol_error;

fn code<T: PartialEq>(table: &[T], value: T) -> u8 {
    table.iter().position(|other| *other == value).unwrap_or(0) as u8
}

fn decode<T: Copy>(table: &[T], byte: u8, what: &str) -> Result<T> {
    table.get(usize::from(byte)).copied().ok_or_else(|| protocol_error(what))
}

/// At most eight: three bits say which.
pub const TIME_RANGES: [TimeRange; 6] =
    [time_range::ANY, time_range::SMALL, time_range::EXT4, time_range::XFS, time_range::FAT, time_range::SFTP];

const KINDS: [Kind; 8] = [Kind::File, Kind::Dir, Kind::Link, Kind::Fifo, Kind::Socket, Kind::Char, Kind::Block, Kind::Unknown];

const ERRORS: [ErrorKind; 19] = [
    ErrorKind::Other,
    ErrorKind::NotFound,
    ErrorKind::Vanished,
    ErrorKind::Exists,
    ErrorKind::Denied,
    ErrorKind::NoSpace,
    ErrorKind::Quota,
    ErrorKind::ReadOnly,
    ErrorKind::Changed,
    ErrorKind::Corrupt,
    ErrorKind::Unsupported,
    ErrorKind::Cancelled,
    ErrorKind::Busy,
    ErrorKind::TimedOut,
    ErrorKind::Broken,
    ErrorKind::BadName,
    ErrorKind::Usage,
    ErrorKind::Io,
    ErrorKind::Limit,
];

const WHO: [Who; 2] = [Who::User, Who::Group];

const PROOFS: [Proof; 3] = [Proof::Medium, Proof::Cache, Proof::Server];

pub fn kind_to(kind: Kind) -> u8 {
    code(&KINDS, kind)
}

pub fn kind_from(byte: u8) -> Result<Kind> {
    decode(&KINDS, byte, "an entry of unknown kind")
}

pub fn error_to(kind: ErrorKind) -> u8 {
    code(&ERRORS, kind)
}

pub fn error_from(byte: u8) -> ErrorKind {
    ERRORS.get(usize::from(byte)).copied().unwrap_or(ErrorKind::Other)
}

pub fn proof_to(proof: Proof) -> u8 {
    code(&PROOFS, proof)
}

pub fn proof_from(byte: u8) -> Proof {
    PROOFS.get(usize::from(byte)).copied().unwrap_or(Proof::Server)
}

pub fn algorithm_to(algorithm: Algorithm) -> u8 {
    code(&Algorithm::ALL, algorithm)
}

pub fn algorithm_from(byte: u8) -> Result<Algorithm> {
    decode(&Algorithm::ALL, byte, "an unknown hash")
}

pub fn who_to(who: Who) -> u8 {
    code(&WHO, who)
}

pub fn who_from(byte: u8) -> Result<Who> {
    decode(&WHO, byte, "an owner that is neither a user nor a group")
}
