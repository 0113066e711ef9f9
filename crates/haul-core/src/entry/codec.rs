//! Entries as bytes, for what waits on disk within a run.

use super::{Dir, Entry, Kind, MetaMask, Name, Time};

/// Kinds by the number that stands for them.
const KINDS: [Kind; 8] = [Kind::File, Kind::Dir, Kind::Link, Kind::Fifo, Kind::Socket, Kind::Char, Kind::Block, Kind::Unknown];

/// Beside the kind: it is known that there are no extended attributes.
const NO_XATTRS: u8 = 0x80;
const LONG: usize = 8;
const SHORT: usize = 5;
const FIXED: usize = 1 + 2 + 8 * LONG + 4 * SHORT;

pub fn kind_number(kind: Kind) -> u8 {
    KINDS.iter().position(|known| *known == kind).unwrap_or(KINDS.len() - 1) as u8
}

pub fn kind_of(number: u8) -> Kind {
    KINDS.get(usize::from(number)).copied().unwrap_or(Kind::Unknown)
}

/// An entry without link target, xattrs and names of owners, which are read again when they are needed, with its leaf.
pub fn encode(e: &Entry) -> Vec<u8> {
    encode_as(e, &e.name.leaf)
}

/// The same with another name, of any bytes, in place of the leaf.
pub fn encode_as(e: &Entry, name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(FIXED + name.len());
    let no_xattrs = e.xattrs.as_ref().is_some_and(|xattrs| xattrs.is_empty());
    out.push(kind_number(e.kind) | if no_xattrs { NO_XATTRS } else { 0 });
    let again = e.target.is_some() || e.owners.is_some();
    let have = if again || (e.xattrs.is_some() && !no_xattrs) { MetaMask::NONE } else { e.have };
    out.extend(have.0.to_le_bytes());
    for word in [e.size, e.mtime.secs.cast_unsigned(), e.rdev, e.ino, e.dev, e.stored, e.version, e.ctime] {
        out.extend(word.to_le_bytes());
    }
    for word in [e.mtime.nanos, e.mode, e.uid, e.gid, e.nlink] {
        out.extend(word.to_le_bytes());
    }
    out.extend_from_slice(name);
    out
}

/// `None` for what [`encode`] has not made.
pub fn decode(dir: &Dir, bytes: &[u8]) -> Option<Entry> {
    let (fixed, leaf) = bytes.split_at_checked(FIXED)?;
    let mut entry = Entry::bare(Name::new(dir, leaf), *KINDS.get(usize::from(fixed[0] & !NO_XATTRS))?);
    entry.xattrs = (fixed[0] & NO_XATTRS != 0).then(Box::default);
    entry.have = MetaMask(u16::from_le_bytes(fixed[1..3].try_into().ok()?));
    let (long, short) = fixed[3..].split_at(8 * LONG);
    let long: [u64; LONG] = std::array::from_fn(|i| u64::from_le_bytes(*long[i * 8..].first_chunk().expect("of this length")));
    let short: [u32; SHORT] = std::array::from_fn(|i| u32::from_le_bytes(*short[i * 4..].first_chunk().expect("of this length")));
    [entry.size, _, entry.rdev, entry.ino, entry.dev, entry.stored, entry.version, entry.ctime] = long;
    [_, entry.mode, entry.uid, entry.gid, entry.nlink] = short;
    entry.mtime = Time { secs: long[1].cast_signed(), nanos: short[0] };
    Some(entry)
}

/// The name that an encoded entry has.
pub fn name(bytes: &[u8]) -> &[u8] {
    bytes.get(FIXED..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_as_it_went() {
        let dir = Dir::root();
        for (i, kind) in KINDS.into_iter().enumerate() {
            assert_eq!((usize::from(kind_number(kind)), kind_of(i as u8)), (i, kind));
            let mut e = Entry::bare(Name::new(&dir, b"leaf"), kind);
            (e.size, e.rdev, e.ino, e.dev, e.stored, e.version, e.ctime) = (1, 2, 3, 4, 5, 6, 12);
            (e.mode, e.uid, e.gid, e.nlink) = (0o644, 7, 8, 9);
            e.mtime = Time { secs: -10, nanos: 11 };
            e.have = MetaMask::MODE;
            e.xattrs = Some(Box::default());
            let bytes = encode(&e);
            assert_eq!(name(&bytes), b"leaf");
            let back = decode(&dir, &bytes).unwrap();
            assert_eq!(format!("{back:?}"), format!("{e:?}"));
            assert!(decode(&dir, &bytes[..FIXED - 1]).is_none());
        }
    }
}
